"""Hold a run in a runbook's name, lift just that hold again, or stop the run for good."""

from controlplane.domain.errors import Conflict
from controlplane.domain.recovery.acts import Do
from controlplane.runbooks.holders import holder
from controlplane.runbooks.outcomes import Done, Outcome
from controlplane.runbooks.steps.base import Step
from controlplane.runbooks.turn import Turn
from controlplane.runs import actions as runs


class HoldRun(Step):
    """From now on only people, and this execution, go on with the run."""

    def look(self, turn: Turn) -> Outcome:
        """Hold it; one that a person holds is held already, and stays theirs."""
        mine = holder(turn.execution)
        if not turn.run.held:
            runs.hold(turn.run, mine, turn.now)
            turn.act(Do.HOLD, turn.incident.title)
        return Done({"held": turn.run.held_by == mine})


class ResumeRun(Step):
    """Automation undoes only what it did itself."""

    def look(self, turn: Turn) -> Outcome:
        """Lift the hold if it is ours by now."""
        if turn.run.held and turn.run.held_by == holder(turn.execution):
            runs.resume(turn.run, turn.run.held_by, turn.now)
            return Done()
        raise Conflict(f"{turn.run.name} is held by {turn.run.held_by}" if turn.run.held else "no hold of ours is left")


class StopRun(Step):
    """The last step of a runbook: nothing acts on a stopped run."""

    def look(self, turn: Turn) -> Outcome:
        """Stop it in the name of whoever started this."""
        runs.stop(turn.run, turn.execution.approved_by or holder(turn.execution), turn.now)
        return Done()
