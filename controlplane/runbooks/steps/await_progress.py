"""Wait for a step beyond everything before: a launch that does not train is no recovery.

A new fault of the new attempt ends the execution; the incident, still open, is
considered again with the pause that the guards ask for.
"""

from collections.abc import Mapping
from typing import Any

from controlplane.domain.chronicle import sentences
from controlplane.domain.recovery.acts import Do
from controlplane.incidents import queries as incidents
from controlplane.runbooks.outcomes import Done, Failed, Outcome, Wait
from controlplane.runbooks.steps.base import Step
from controlplane.runbooks.turn import Turn
from controlplane.runs import actions as runs
from controlplane.runs.models import Attempt, AttemptState, RunState
from controlplane.runs.times import seconds

POLL_S = 5.0


class AwaitProgress(Step):
    """Watch the new attempt until it is further than the run ever was."""

    def begin(self, turn: Turn) -> Mapping[str, Any]:
        """Note what has to be passed."""
        attempt = turn.launched
        return {"high_water": attempt.high_water_before if attempt else turn.run.high_water_step}

    def preview(self, turn: Turn) -> str | None:
        """Name the step that has to be passed."""
        return f"wait for a step beyond {turn.run.high_water_step}"

    def look(self, turn: Turn) -> Outcome:
        """Ask how far the attempt is, and whether anything stands against it."""
        attempt = turn.launched
        if attempt is None:
            return Failed("the attempt is not known", retry=False)
        _tell_first_step(turn, attempt)
        if attempt.beyond_at is not None:
            return _caught_up(turn, attempt)
        if attempt.state == AttemptState.EXITED:
            return Failed(f"it ended ({attempt.reason.replace('_', ' ') or 'unknown reason'})", retry=False)
        trouble = incidents.confirmed_against(turn.incident, attempt.number)
        if trouble is not None:
            return Failed(trouble.sentence.rstrip("."), retry=False)
        return Wait(turn.in_s(POLL_S), turn.spec.waits_for)

    def expired(self, turn: Turn) -> Outcome:
        """Give more time to an attempt that repeats many steps; one that makes none has failed."""
        attempt = turn.launched
        if attempt is not None and _steps_on(attempt, turn):
            turn.tried.deadline = turn.in_s(turn.spec.limit_s)
            turn.tried.save(update_fields=["deadline"])
            return Wait(turn.in_s(POLL_S), turn.spec.waits_for)
        why = f"attempt {turn.context.get('new_attempt')} makes no steps after {turn.spec.limit_s / 60:g} min"
        turn.act(Do.PAGE, why)
        return Failed(why, retry=False)


def _steps_on(attempt: Attempt, turn: Turn) -> bool:
    """A step within the longest budget that any step has is progress."""
    last = attempt.last_step_at
    return last is not None and (turn.now - last).total_seconds() < turn.policy.hang_cap_s


def _tell_first_step(turn: Turn, attempt: Attempt) -> None:
    if attempt.first_step_at is None or attempt.last_step is None:
        return
    after = (attempt.first_step_at - attempt.started_at).total_seconds()
    told = sentences.first_step(attempt.number, attempt.resume_step + 1, after)
    turn.tell("progress", told, key=f"first:{attempt.number}")


def _caught_up(turn: Turn, attempt: Attempt) -> Outcome:
    runs.set_state(turn.run, expected=[RunState.RECOVERING, RunState.WAITING], to=RunState.RUNNING)
    first = seconds(attempt.first_step_at) if attempt.first_step_at else None
    reached = seconds(attempt.beyond_at) if attempt.beyond_at else seconds(turn.now)
    return Done({
        "attempt": attempt.number, "step": attempt.last_step, "first_step_at": first, "caught_up_at": reached,
    })  # fmt: skip
