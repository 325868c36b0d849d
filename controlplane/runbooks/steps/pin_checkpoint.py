"""Pin the newest good checkpoint while a person looks into the numbers, and unpin just that."""

from controlplane.checkpoints import actions as checkpoints
from controlplane.runbooks import points
from controlplane.runbooks.outcomes import Done, Failed, Outcome
from controlplane.runbooks.steps.base import Step
from controlplane.runbooks.turn import Turn


class PinCheckpoint(Step):
    """What nothing speaks against now is kept, whatever is cleaned up later."""

    def look(self, turn: Turn) -> Outcome:
        """Pin the restore point."""
        choice = points.restore_point(turn.run)
        before = checkpoints.pin(turn.run, choice.step) if choice.step else None
        if before is None:
            return Failed("the ledger knows no complete checkpoint that nothing speaks against", retry=False)
        return Done({"pinned_step": choice.step, "pinned_before": before})

    def preview(self, turn: Turn) -> str | None:
        """Name the checkpoint."""
        return f"pin the checkpoint of step {points.restore_point(turn.run).step}"


class UnpinCheckpoint(Step):
    """Give the checkpoint back the state it had."""

    def look(self, turn: Turn) -> Outcome:
        """A checkpoint that was pinned before stays pinned."""
        step, before = turn.context.get("pinned_step"), turn.context.get("pinned_before")
        if not isinstance(step, int) or not isinstance(before, str):
            return Failed("this runbook pinned nothing", retry=False)
        checkpoints.unpin(turn.run, step, before)
        return Done({"pinned_step": step})
