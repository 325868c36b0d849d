"""Find a run that is busy and gets no further: no new furthest step, whatever restarts happen (D-02).

Being alive and being new are two questions (methods 11.4): a run that restarts every
half hour makes steps all day. One finding covers all launches since the furthest step.
"""

from controlplane.domain.detection import phases, steps
from controlplane.domain.detection.policy import RunPolicy
from controlplane.domain.detection.state import AttemptState, RunState
from controlplane.domain.findings import Finding, Stage
from controlplane.domain.signals import Signal

DETECTOR = "D-02"
LOOP_LAUNCHES = 2
"""Fewer launches than this are judged by what each attempt shows."""


def take(state: RunState, _signal: Signal, _policy: RunPolicy) -> None:
    """Count the launches since the furthest step moved."""
    record, attempt = state.stagnation, state.attempt
    if attempt is None:
        return
    if attempt.number > record.newest:
        record.launches += record.newest >= 0
        record.newest = attempt.number
    if state.high_water_step > record.step:
        record.step, record.launches, record.rewinds = state.high_water_step, 0, attempt.rewinds


def look(state: RunState, policy: RunPolicy, now: float) -> list[Finding]:
    """Give the finding while no new step comes, and its end when one came."""
    attempt, record = state.live, state.stagnation
    moved = state.high_water_at is None or (record.found_at is not None and state.high_water_at > record.found_at)
    if record.found_at is not None and moved:
        found = _finding(state, Stage.CLEARED, now)
        record.found_at = None
        return [found]
    moment = _moment(state, policy, now)
    if record.found_at is None and attempt is not None and moment is not None and now >= moment:
        record.serial, record.found_at = record.serial + 1, now
    return [] if record.found_at is None else [_finding(state, Stage.CONFIRMED, record.found_at)]


def due(state: RunState, policy: RunPolicy, now: float) -> float | None:
    """Give when the run will have stood still for too long."""
    if state.stagnation.found_at is not None:
        return None
    return _moment(state, policy, now)


def _moment(state: RunState, policy: RunPolicy, now: float) -> float | None:
    """Give when it is told; None while nothing of the kind can be said.

    A launch that has not failed yet is given its time to start and to come back.
    """
    attempt = state.live
    if attempt is None or state.high_water_at is None or state.repeats.klass or not _restarted(state, attempt):
        return None
    waited = phases.clock(state, policy, now)
    if waited is not None and waited.what not in ("step", "first step") and waited.deadline_s > policy.stagnation_s:
        return None
    catch_up_s = _catch_up_s(state, attempt, policy)
    fair = 0.0 if state.troubled else attempt.began_at + policy.first_step_floor_s + catch_up_s
    return max(state.high_water_at + policy.stagnation_s + catch_up_s, fair)


def _restarted(state: RunState, attempt: AttemptState) -> bool:
    """Without a restart the stall of progress is told by its own detector, much earlier."""
    return state.stagnation.launches >= LOOP_LAUNCHES or attempt.rewinds > state.stagnation.rewinds


def _catch_up_s(state: RunState, attempt: AttemptState, policy: RunPolicy) -> float:
    """Give how long a sound attempt needs to come back to where the run had been."""
    begun = attempt.resume_step if attempt.first_step is None else attempt.first_step
    if begun is None:
        return 0.0
    return max(0, state.high_water_step - begun) * (steps.median_step_s(state, policy) or 0.0)


def _finding(state: RunState, stage: Stage, at: float) -> Finding:
    record, attempt = state.stagnation, state.attempt
    return Finding(
        key=f"{state.run}/stagnation/{record.serial}",
        detector=DETECTOR,
        klass="crash_loop",
        stage=stage,
        entity="run",
        began=state.high_water_at or at,
        at=at,
        run=state.run,
        attempt=attempt.number if attempt else None,
        severity="info" if stage is Stage.CLEARED else "critical",
        sentence=_sentence(state, stage, at),
        facts={
            "launches": record.launches,
            "since": state.high_water_at,
            "last_step": state.high_water_step,
            "fingerprint": "no new step",
        },
    )


def _sentence(state: RunState, stage: Stage, at: float) -> str:
    record = state.stagnation
    if stage is Stage.CLEARED:
        return f"run {state.run} goes beyond step {record.step - 1} again"
    hours = (at - (state.high_water_at or at)) / 3600
    tries = f"{record.launches} launches" if record.launches else "restarts inside the attempt"
    return f"run {state.run} has not gone beyond step {state.high_water_step} for {hours:.1f} h in spite of {tries}"
