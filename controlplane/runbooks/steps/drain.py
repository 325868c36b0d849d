"""Mark the suspected node so that no further attempt takes it.

It is drained, not quarantined: that it is slow is a measurement of the run, and only
proof in a run or a benchmark says whether it stays out (requirements D-05, L-05).
"""

from controlplane.domain.fleet.states import USABLE
from controlplane.domain.recovery.guards import may_move_again
from controlplane.domain.recovery.responses import is_hard
from controlplane.fleet import queries as fleet
from controlplane.incidents import queries as incidents
from controlplane.runbooks import exclusions
from controlplane.runbooks.models import ExecutionState
from controlplane.runbooks.outcomes import Done, End, Outcome
from controlplane.runbooks.steps.base import Step
from controlplane.runbooks.turn import Turn
from controlplane.runs.times import seconds

PERSON = "person"


class Drain(Step):
    """Drain the node that the evidence names by now."""

    def look(self, turn: Turn) -> Outcome:
        """Ask who is suspected once more; when nobody is, or nobody may touch it, the run is left alone."""
        diagnosis = incidents.diagnosis(turn.incident, turn.now, attempt=turn.execution.attempt)
        node = diagnosis.act_on if diagnosis else None
        if diagnosis is None or node is None:
            return End(ExecutionState.SUCCEEDED, "no node stands out any more; nothing was touched")
        if not _rested(turn, node, fatal=is_hard(diagnosis)):
            return End(ExecutionState.STOPPED, f"node {node} was moved a moment ago, so it stays where it is")
        if not exclusions.drain(turn, diagnosis, node):
            return End(ExecutionState.STOPPED, f"node {node} may not be drained; nothing was touched")
        return Done({"drained": node})

    def preview(self, turn: Turn) -> str | None:
        """Name the node that is suspected now."""
        diagnosis = incidents.diagnosis(turn.incident, turn.now, attempt=turn.execution.attempt)
        node = diagnosis.act_on if diagnosis else None
        return f"drain node {node}, so that no further attempt takes it" if node else super().preview(turn)


def _rested(turn: Turn, name: str, *, fatal: bool) -> bool:
    """Taking part in an attempt is no verdict, so a node in use may be moved at any time."""
    for node in fleet.nodes_for([name]):
        by_person = node.state_actor_kind == PERSON or node.state in USABLE
        return may_move_again(
            moved_at=seconds(node.state_since), by_person=by_person, now=seconds(turn.now), fatal=fatal,
            policy=turn.policy,
        )  # fmt: skip
    return False
