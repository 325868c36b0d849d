"""Find a run that hangs: no progress within the deadline (methods 1).

A suspicion is free of side effects and only asks for stacks. It is confirmed at
once when independent evidence agrees, otherwise when twice the deadline is over.
One that goes away by itself teaches patience, and the page shows how much.
"""

from controlplane.domain.detection.phases import Clock, clock, factor_k
from controlplane.domain.detection.policy import RunPolicy
from controlplane.domain.detection.stacks import Testimony, testimony
from controlplane.domain.detection.state import AttemptState, HangState, RunState
from controlplane.domain.findings import Finding, Stage

DETECTOR = "D-01"
CONFIRM_DEADLINES = 2


def look(state: RunState, policy: RunPolicy, now: float) -> list[Finding]:
    """Judge the run's progress at `now`; give the finding that holds, or the one that cleared."""
    attempt, waited = state.live, clock(state, policy, now)
    if attempt is None or waited is None or state.death.found_at is not None:
        return []
    hang = state.hang
    if hang.stage and waited.since > hang.mark:
        return [_clear(state, attempt, policy, now)]
    seen = Clock(
        what=waited.what,
        since=max(waited.since, state.sight.resumed_at),
        deadline_s=waited.deadline_s,
        expected_s=waited.expected_s,
    )
    if not hang.stage and seen.overdue(now):
        _suspect(hang, waited, now)
    if not hang.stage:
        return []
    awake = {name for name, node in state.nodes.items() if (node.last_at or 0.0) >= hang.suspected_at}
    said = testimony(attempt, since=hang.suspected_at, now=now, awake=awake)
    if hang.stage == Stage.SUSPECT and (said.independent or _is_over(hang, seen, policy, now)):
        hang.stage, hang.confirmed_at = Stage.CONFIRMED.value, now
    return [_finding(state, attempt, said, policy)]


def _is_over(hang: HangState, seen: Clock, policy: RunPolicy, now: float) -> bool:
    """Twice the deadline is over, and the suspicion stood long enough for stacks to come in."""
    stood = now - hang.suspected_at >= hang.deadline_s - policy.delta_s
    return stood and seen.age(now) >= CONFIRM_DEADLINES * hang.deadline_s


def _suspect(hang: HangState, waited: Clock, now: float) -> None:
    hang.serial += 1
    hang.stage = Stage.SUSPECT.value
    hang.mark, hang.began = waited.since, waited.since + waited.expected_s
    hang.suspected_at, hang.what, hang.deadline_s = now, waited.what, waited.deadline_s


def _clear(state: RunState, attempt: AttemptState, policy: RunPolicy, now: float) -> Finding:
    """Take the suspicion back, and be more patient from now on."""
    hang = state.hang
    raised = policy.hang_k_growth * factor_k(state, policy, now)
    hang.k, hang.k_raised_at = min(policy.hang_k_max, max(raised, policy.hang_k)), now
    hang.stage = ""
    return Finding(
        key=_key(state, attempt),
        detector=DETECTOR,
        klass="hang",
        stage=Stage.CLEARED,
        entity="run",
        began=hang.began,
        at=now,
        run=state.run,
        attempt=attempt.number,
        severity="warning",
        sentence=f"run {state.run} made progress again by itself; a step may last {hang.k:.2g} medians from now on",
        facts={"k": hang.k},
    )


def _key(state: RunState, attempt: AttemptState) -> str:
    return f"{state.run}/{attempt.number}/hang/{state.hang.serial}"


def _finding(state: RunState, attempt: AttemptState, said: Testimony, policy: RunPolicy) -> Finding:
    hang = state.hang
    confirmed = hang.stage == Stage.CONFIRMED
    return Finding(
        key=_key(state, attempt),
        detector=DETECTOR,
        klass="hang",
        stage=Stage(hang.stage),
        entity=said.entity,
        began=hang.began,
        at=hang.confirmed_at if confirmed else hang.suspected_at,
        run=state.run,
        attempt=attempt.number,
        severity="critical" if confirmed else "warning",
        sentence=_sentence(state, attempt, said),
        evidence=said.evidence,
        facts=_facts(state, attempt, said, policy),
    )


def _sentence(state: RunState, attempt: AttemptState, said: Testimony) -> str:
    hang = state.hang
    last = "no step yet" if attempt.last_step is None else f"step {attempt.last_step} was the last"
    what = "made no step" if hang.what in ("step", "first step") else f"made no progress in {hang.what}"
    base = f"run {state.run} {what} within its deadline of {hang.deadline_s:.4g} s; {last}"
    if hang.stage != Stage.CONFIRMED:
        return base
    return f"{base}; {said.independent or 'twice the deadline is over'}"


def _facts(state: RunState, attempt: AttemptState, said: Testimony, policy: RunPolicy) -> dict[str, object]:
    hang = state.hang
    blamed = {line.entity for line in said.evidence}
    places = {str(number): rank.node for number, rank in attempt.ranks.items() if f"rank:{number}" in blamed}
    return {
        "waited_for": hang.what,
        "deadline_s": round(hang.deadline_s, 3),
        "k": round(factor_k(state, policy, hang.suspected_at), 3),
        "last_step": attempt.last_step,
        "last_progress_at": hang.mark,
        "independent": said.independent,
        "places": places,
        "fingerprint": f"hang in {hang.what}",
        "cause": _cause(said),
    }


def _cause(said: Testimony) -> str:
    stopped = [line.text for line in said.evidence if line.entity.startswith("rank:") and "process" in line.text]
    return stopped[0] if stopped else ""
