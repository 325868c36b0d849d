"""Find a run that hangs: no progress within the deadline (methods 1).

A suspicion is free of side effects and only asks for stacks. It is confirmed at
once when independent evidence agrees, otherwise when twice the deadline is over.
One that goes away by itself teaches patience, and the page shows how much.
"""

from dataclasses import replace

from controlplane.domain.detection.phases import Clock, clock, factor_k
from controlplane.domain.detection.policy import RunPolicy
from controlplane.domain.detection.progress_words import finding
from controlplane.domain.detection.stacks import ANSWER_GRACE_S, testimony
from controlplane.domain.detection.state import AttemptState, HangState, RunState
from controlplane.domain.findings import Finding, Stage

CONFIRM_DEADLINES = 2
LOOKED_BEFORE_S = 10.0
"""Stacks that were taken so shortly before the suspicion show the same standstill."""
LEARNING = frozenset({"step", "first step"})
"""What is waited for when a suspicion that passes makes a training step's deadline longer."""


def look(state: RunState, policy: RunPolicy, now: float) -> list[Finding]:
    """Judge the run's progress at `now`; give the finding that holds, or the one that cleared."""
    attempt, waited = state.live, clock(state, policy, now)
    if attempt is None or waited is None or state.death.found_at is not None:
        return []
    hang = state.hang
    if hang.stage and waited.since > hang.mark:
        return [_clear(state, attempt, policy, now)]
    seen = _seen(state, waited)
    if not hang.stage and seen.overdue(now):
        _suspect(hang, waited, now)
    if not hang.stage:
        return []
    awake = {name for name, node in state.nodes.items() if (node.last_at or 0.0) >= hang.suspected_at}
    said = testimony(attempt, since=max(hang.mark, hang.suspected_at - LOOKED_BEFORE_S), now=now, awake=awake)
    if hang.stage == Stage.SUSPECT and (said.independent or now >= _confirmed_by_timer(hang, seen, policy)):
        hang.stage, hang.confirmed_at = Stage.CONFIRMED.value, now
    return [finding(state, attempt, said, policy)]


def due(state: RunState, policy: RunPolicy, now: float) -> float | None:
    """Give when the deadline comes, or when the timer confirms, seconds since the epoch."""
    attempt, waited = state.live, clock(state, policy, now)
    if attempt is None or waited is None or state.death.found_at is not None:
        return None
    hang, seen = state.hang, _seen(state, waited)
    if not hang.stage:
        return seen.due
    moments = [_answers_over(attempt, hang)]
    if hang.stage == Stage.SUSPECT:
        moments.append(_confirmed_by_timer(hang, seen, policy))
    return min((moment for moment in moments if moment > now), default=None)


def _seen(state: RunState, waited: Clock) -> Clock:
    """Count from our return when we were away."""
    return replace(waited, since=max(waited.since, state.sight.resumed_at))


def _confirmed_by_timer(hang: HangState, seen: Clock, policy: RunPolicy) -> float:
    """Twice the deadline is over, and the suspicion stood long enough for stacks to come in."""
    return max(
        hang.suspected_at + hang.deadline_s - policy.delta_s,
        seen.since + CONFIRM_DEADLINES * hang.deadline_s,
    )


def _answers_over(attempt: AttemptState, hang: HangState) -> float:
    """Give when those that were asked for stacks and said nothing count as having given none."""
    answers = [
        rank.collected.at
        for rank in attempt.ranks.values()
        if rank.collected.answered and rank.collected.at >= hang.suspected_at
    ]
    return min(answers, default=0.0) + ANSWER_GRACE_S


def _suspect(hang: HangState, waited: Clock, now: float) -> None:
    hang.serial += 1
    hang.stage = Stage.SUSPECT.value
    hang.mark, hang.began = waited.since, waited.since + waited.expected_s
    hang.suspected_at, hang.what, hang.deadline_s = now, waited.what, waited.deadline_s
    hang.spread_s = waited.spread_s


def _clear(state: RunState, attempt: AttemptState, policy: RunPolicy, now: float) -> Finding:
    """Take the suspicion back, and be more patient with steps from now on."""
    hang = state.hang
    if hang.what in LEARNING:
        raised = policy.hang_k_growth * factor_k(state, policy, now)
        hang.k, hang.k_raised_at = min(policy.hang_k_max, max(raised, policy.hang_k)), now
    hang.stage = Stage.CLEARED.value
    found = finding(state, attempt, testimony(attempt, since=now, now=now, awake=()), policy)
    hang.stage = ""
    return replace(found, at=now)
