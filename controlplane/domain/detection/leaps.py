"""Refuse a step number that no training can have reached since the last one.

One wild number from a broken or hostile process would otherwise set the furthest step
for ever, and everything after it would look like old news. What goes on from the wild
number is believed after a few steps, because a run that is ignored would look hung.
"""

from controlplane.domain.detection import steps
from controlplane.domain.detection.policy import RunPolicy
from controlplane.domain.detection.state import AttemptState, RunState

FREE_STEPS = 1000
"""A jump by so much is always believed."""
FASTER = 20.0
"""So many times its usual speed is believed as well."""
BELIEVED_AFTER = 3
"""Steps that go on from a leap until it is believed."""


def refused(state: RunState, attempt: AttemptState, step: int, at: float, policy: RunPolicy) -> bool:
    """Say whether `step`, received at `at`, is a leap that is not believed yet, and count it."""
    last = _reference(state, attempt)
    if last is None or step <= last + _room(state, attempt, at, policy):
        attempt.leap_step, attempt.leap_run = None, 0
        return False
    if attempt.leap_step is None or not attempt.leap_step <= step <= attempt.leap_step + FREE_STEPS:
        attempt.leap_step, attempt.leap_run = step, 0
        attempt.leaps += 1
    elif step > attempt.leap_step:
        attempt.leap_step, attempt.leap_run = step, attempt.leap_run + 1
    return attempt.leap_run < BELIEVED_AFTER


def _reference(state: RunState, attempt: AttemptState) -> int | None:
    """Give the step from which a leap is measured, None while nothing is known at all."""
    if attempt.last_step is not None:
        return attempt.last_step
    known = max(attempt.resume_step or 0, state.resume.step or 0, state.high_water_step)
    return known or None


def _room(state: RunState, attempt: AttemptState, at: float, policy: RunPolicy) -> float:
    usual_s = steps.median_step_s(state, policy) or policy.declared_step_s
    elapsed_s = at - (attempt.progress_at or attempt.began_at)
    return max(FREE_STEPS, FASTER * elapsed_s / usual_s if usual_s else 0.0)
