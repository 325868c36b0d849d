"""Go on by our own clock when it was set back.

What was taken down before would lie ahead of it, and whatever is judged by age would rest until
the clock has caught up: an hour, where it stood in the wrong zone. Each such moment becomes `now`.
"""

from typing import Any

from controlplane.domain.detection.fleet_state import FleetState
from controlplane.domain.detection.policy import RunPolicy
from controlplane.domain.detection.state import RunState, SightState


def of_run(state: RunState, policy: RunPolicy, now: float) -> None:
    """Let nothing of a run lie ahead of `now`, seconds since the epoch; no work while the clock only advances."""
    if not _was_set_back(state.sight, policy, now):
        return
    for node in state.nodes.values():
        _limit(node, now, "last_at")
    if state.attempt is not None:
        _limit(state.attempt, now, "began_at", "progress_at", "saved_at")
        for rank in state.attempt.ranks.values():
            _limit(rank.phase, now, "at", "began_at", "moved_at")


def of_fleet(state: FleetState, policy: RunPolicy, now: float) -> None:
    """Do the same for the nodes of the fleet."""
    if _was_set_back(state.sight, policy, now):
        for node in state.nodes.values():
            _limit(node, now, "last_at")


def _was_set_back(sight: SightState, policy: RunPolicy, now: float) -> bool:
    if sight.last_sweep is None or sight.last_sweep <= now:
        return False
    _limit(sight, now, "last_word", "resumed_at")
    _limit(sight, now + policy.observe_s, "observing_until")
    return True


def _limit(known: Any, most: float, *names: str) -> None:
    for name in names:
        at = getattr(known, name)
        if at is not None and at > most:
            setattr(known, name, most)
