"""Let the training itself save, or save and end (R-09).

A hung job never looks for a switch, so nobody's answer is no surprise: the switch
disarms itself, and a teardown from outside follows. Ranks answer before they save, so
only a complete checkpoint ends a save: what follows may stop them. Before a kill the
attempt is marked as ours to end, so that its end is neither a fault nor a finished training.
"""

from collections.abc import Mapping
from typing import Any

from controlplane.checkpoints.queries import completed_since
from controlplane.domain.recovery.acts import Do
from controlplane.runbooks.outcomes import Done, Failed, Outcome, Wait
from controlplane.runbooks.steps.base import Step, answer, finished, refusal, succeeded
from controlplane.runbooks.turn import Turn
from controlplane.runs import actions as runs
from controlplane.runs import saving
from controlplane.runs.models import Attempt, AttemptState
from controlplane.runs.watching_again import watch_again

POLL_S = 5.0
DISARM_WITHIN_S = 30.0


class ArmSwitch(Step):
    """Arm a switch on the node of rank 0 and wait for the ranks."""

    def begin(self, turn: Turn) -> Mapping[str, Any]:
        """Leave the command, unless the workload cannot obey it."""
        attempt, what = _attempt(turn), _what(turn)
        why = saving.why_not(attempt, what)
        if attempt is None or why:
            return {"what": what, "refused": why}
        if what == saving.KILL:
            turn.act(Do.KILL, "the training is asked to save and end", args={"attempt": attempt.number})
            runs.mark_stopping(attempt, turn.now)
        args = {"run": turn.run.name, "attempt": attempt.number, "what": what}
        turn.command(attempt.nodes[0], "switch.arm", args, within_s=float(turn.spec.args["wait"]))
        turn.context.update(armed=what, armed_attempt=attempt.number)
        return {"what": what, "attempt": attempt.number}

    def look(self, turn: Turn) -> Outcome:
        """Be done when what a rank took the switch for has happened: a complete checkpoint, or the attempt's end."""
        command = next(iter(turn.commands()), None)
        if command is None:
            return Failed(str(turn.tried.intent.get("refused")), retry=False)
        if not finished(command):
            return Wait(turn.in_s(POLL_S), turn.spec.waits_for)
        if not succeeded(command):
            watch_again(turn.run, turn.now, turn.book)
            return Failed(refusal(command), retry=False)
        told = answer(command)
        return _pending(turn, told.get("step")) or Done(
            {"acknowledged": told.get("acknowledged", []), "switch_step": told.get("step")}
        )

    def expired(self, turn: Turn) -> Outcome:
        """What has not ended by itself is for the teardown; a save that never came costs no more than this limit."""
        missed = "end" if _what(turn) == saving.KILL else "complete a checkpoint"
        return Failed(f"the ranks did not {missed} within {turn.spec.limit_s:g} s", retry=False)

    def preview(self, turn: Turn) -> str | None:
        """Say which switch, or why it cannot be armed."""
        what, attempt = _what(turn), _attempt(turn)
        why = saving.why_not(attempt, what)
        if attempt is None or why:
            return f"find that the {what} switch cannot be armed: {why}"
        return f"arm the {what} switch of attempt {attempt.number} on {attempt.nodes[0]}"


class DisarmSwitch(Step):
    """Take away what this runbook armed, also when another attempt trains by now."""

    def begin(self, turn: Turn) -> Mapping[str, Any]:
        """Ask the agent of the node of rank 0; nothing where nothing was armed, or the attempt is over."""
        number, what = turn.context.get("armed_attempt", turn.execution.attempt), turn.context.get("armed")
        living = turn.run.attempts.filter(number=number).exclude(state=AttemptState.EXITED).first()
        if living is None or what not in saving.NEEDS or not living.nodes:
            return {"attempt": number}
        args = {"run": turn.run.name, "attempt": number, "what": what}
        turn.command(living.nodes[0], "switch.disarm", args, within_s=DISARM_WITHIN_S)
        return {"attempt": number}

    def look(self, turn: Turn) -> Outcome:
        """Be done when it is gone; a switch that a rank has taken cannot be taken back."""
        command = next(iter(turn.commands()), None)
        if command is None:
            return Done()
        if not finished(command):
            return Wait(turn.in_s(POLL_S), turn.spec.waits_for)
        if not succeeded(command):
            return Failed(refusal(command))
        disarmed = bool(answer(command).get("disarmed"))
        if not disarmed and turn.context.get("acknowledged"):
            return Failed("a rank has taken it already", retry=False)
        return Done({"disarmed": disarmed})


def _what(turn: Turn) -> str:
    return str(turn.spec.args["what"])


def _attempt(turn: Turn) -> Attempt | None:
    return turn.launched or turn.broken


def _pending(turn: Turn, step: Any) -> Outcome | None:
    """Say what the ranks that took the switch after `step` have still to do, or nothing."""
    attempt = _attempt(turn)
    lives = attempt is not None and attempt.state != AttemptState.EXITED
    if _what(turn) == saving.KILL:
        return Wait(turn.in_s(POLL_S), "the ranks to save and end") if lives else None
    if completed_since(turn.run, turn.tried.started_at, step=step if isinstance(step, int) else 0):
        return None
    if not lives:
        return Failed("the attempt ended before its checkpoint was complete", retry=False)
    return Wait(turn.in_s(POLL_S), "a complete checkpoint")
