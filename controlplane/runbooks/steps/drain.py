"""Mark the suspected node so that no further attempt takes it.

It is drained, not quarantined: that it is slow is a measurement of the run, and only
proof in a run or a benchmark says whether it stays out (D-05, L-05).
"""

from controlplane.domain.recovery.responses import is_hard
from controlplane.incidents import queries as incidents
from controlplane.runbooks import exclusions
from controlplane.runbooks.models import ExecutionState
from controlplane.runbooks.outcomes import Done, End, Outcome
from controlplane.runbooks.steps.base import Step
from controlplane.runbooks.turn import Turn


class Drain(Step):
    """Drain the node that the evidence names by now."""

    def look(self, turn: Turn) -> Outcome:
        """Ask who is suspected once more; when nobody is, or nobody may touch it, the run is left alone."""
        diagnosis = incidents.diagnosis(turn.incident, turn.now, attempt=turn.execution.attempt)
        node = diagnosis.act_on if diagnosis else None
        if diagnosis is None or node is None:
            return End(ExecutionState.SUCCEEDED, "no node stands out any more; nothing was touched")
        if not exclusions.rested(turn, node, fatal=is_hard(diagnosis)):
            return End(ExecutionState.STOPPED, f"node {node} was moved a moment ago, so it stays where it is")
        if not exclusions.drain(turn, diagnosis, node):
            return End(ExecutionState.STOPPED, f"node {node} may not be drained; nothing was touched")
        return Done({"drained": node})

    def preview(self, turn: Turn) -> str | None:
        """Name the node that is suspected now."""
        diagnosis = incidents.diagnosis(turn.incident, turn.now, attempt=turn.execution.attempt)
        node = diagnosis.act_on if diagnosis else None
        return f"drain node {node}, so that no further attempt takes it" if node else super().preview(turn)
