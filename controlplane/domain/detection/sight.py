"""Know when we cannot see, and say so instead of judging.

If no node at all is heard, or if we ourselves were away, then age and silence say
nothing about the run. Verdicts from them are frozen, and after our return they rest
for a while, because what was delayed arrives late (methods 1 and 2). A short absence
counts where the run's own limits are short: a database that restarts within ten seconds
must not look like a hang of a run whose steps take one.
"""

from controlplane.domain.detection.policy import RunPolicy
from controlplane.domain.detection.state import SightState
from controlplane.domain.findings import Finding, Stage

DETECTOR = "D-19"
SHORTEST_ABSENCE_S = 3.0
"""Sweeps come every second; one that is late by less is a busy machine's."""
CATCH_UP = 2.0
"""After a short absence verdicts rest for this many times its length: senders back off by doubling."""


def look(sight: SightState, policy: RunPolicy, now: float, *, run: str | None) -> list[Finding]:
    """Note our own absence and our blindness; give the finding `blind` or its end."""
    _notice_absence(sight, policy, now)
    deaf_s = 0.0 if sight.last_word is None else now - max(sight.last_word, sight.resumed_at)
    if sight.blind and (sight.last_word or 0.0) > sight.blind_since:
        return [_end(sight, policy, now, run)]
    if not sight.blind and deaf_s >= policy.blind_s:
        sight.blind, sight.serial = True, sight.serial + 1
        sight.blind_since = max(sight.last_word or 0.0, sight.resumed_at)
    return [_finding(sight, Stage.CONFIRMED, sight.blind_since, run)] if sight.blind else []


def frozen(sight: SightState, now: float) -> bool:
    """Say whether verdicts from age and silence are frozen at `now`."""
    return sight.blind or now < sight.observing_until


def due(sight: SightState, policy: RunPolicy, now: float) -> float | None:
    """Give when we shall be blind if nobody speaks, or when verdicts may be given again; None when neither is ahead."""
    moments = [sight.observing_until]
    if not sight.blind and sight.last_word is not None:
        moments.append(max(sight.last_word, sight.resumed_at) + policy.blind_s)
    return min((moment for moment in moments if moment > now), default=None)


def _notice_absence(sight: SightState, policy: RunPolicy, now: float) -> None:
    away_s = 0.0 if sight.last_sweep is None else now - sight.last_sweep
    if away_s >= policy.blind_s:
        _resume(sight, now, policy.observe_s)
    elif away_s >= _tolerated_s(policy):
        _resume(sight, now, min(policy.observe_s, CATCH_UP * away_s))
    sight.last_sweep = now


def _tolerated_s(policy: RunPolicy) -> float:
    """Half the shortest age that leads to a verdict."""
    return max(SHORTEST_ABSENCE_S, min(policy.hang_floor_s, policy.silence_s) / 2)


def _resume(sight: SightState, now: float, rest_s: float) -> None:
    sight.resumed_at, sight.observing_until = now, max(sight.observing_until, now + rest_s)


def _end(sight: SightState, policy: RunPolicy, now: float, run: str | None) -> Finding:
    sight.blind = False
    _resume(sight, now, policy.observe_s)
    return _finding(sight, Stage.CLEARED, now, run)


def _finding(sight: SightState, stage: Stage, at: float, run: str | None) -> Finding:
    about = f"run {run}" if run else "the fleet"
    seen = stage is Stage.CLEARED
    words = f"{about} is heard again; verdicts rest while it is observed" if seen else f"no node of {about} is heard"
    return Finding(
        key=f"{run or 'fleet'}/blind/{sight.serial}",
        detector=DETECTOR,
        klass="blind",
        stage=stage,
        entity="platform",
        began=sight.blind_since,
        at=at,
        run=run,
        severity="info" if seen else "warning",
        sentence=words,
    )
