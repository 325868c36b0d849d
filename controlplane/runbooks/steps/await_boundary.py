"""Let the run train on until a checkpoint is complete, so that stopping it loses nothing.

Until then nothing is touched: the finding may clear, the run may end, and any other
trouble goes first (methods 3 and 11.9).
"""

from controlplane.checkpoints.queries import completed_since
from controlplane.incidents import queries as incidents
from controlplane.runbooks import gate
from controlplane.runbooks.models import ExecutionState
from controlplane.runbooks.outcomes import Done, End, Outcome, Wait
from controlplane.runbooks.steps.base import Step
from controlplane.runbooks.turn import Turn
from controlplane.runs.models import AttemptState

POLL_S = 30.0


class AwaitBoundary(Step):
    """Wait for a checkpoint that was completed after the decision."""

    def look(self, turn: Turn) -> Outcome:
        """Ask whether the trouble stands, whether the attempt lives, and whether a checkpoint is complete."""
        diagnosis = incidents.diagnosis(turn.incident, turn.now, attempt=turn.execution.attempt)
        attempt = turn.broken
        if diagnosis is None or diagnosis.cleared_up:
            return End(ExecutionState.SUCCEEDED, "it recovered by itself; nothing was touched")
        if attempt is None or attempt.state == AttemptState.EXITED:
            return End(ExecutionState.STOPPED, "the attempt ended before its next checkpoint")
        saved = completed_since(turn.run, turn.tried.started_at)  # one from before an approval is no boundary
        if saved is None:
            return Wait(turn.in_s(POLL_S), turn.spec.waits_for)
        return gate.ask(turn, diagnosis) or Done({"boundary": saved.step, "fingerprint": diagnosis.fingerprint})
