"""Give nodes back that this execution took out, as long as nobody has moved them since.

The ledger says who moved what: a node whose newest entry is another one than ours was
moved by somebody who knew more, and stays where it is.
"""

from datetime import datetime

from django.db.models import Max, Min, QuerySet

from controlplane.domain.errors import MiddlewatchError
from controlplane.domain.recovery.acts import Do
from controlplane.fleet.models import NodeState
from controlplane.quarantine import actions as quarantine
from controlplane.quarantine import queries as ledger
from controlplane.quarantine.models import LedgerEntry
from controlplane.runbooks.models import Execution, StepRun
from controlplane.runbooks.outcomes import Done, Outcome
from controlplane.runbooks.steps.base import Step
from controlplane.runbooks.turn import Turn
from controlplane.runs.models import Attempt, AttemptState

TAKEN = (NodeState.DRAINING, NodeState.QUARANTINED, NodeState.SUSPECT)
RUNBOOK = "runbook"


class GiveBack(Step):
    """Look at the ledger, node by node."""

    def look(self, turn: Turn) -> Outcome:
        """Give back what may be; say of each other node why it stays."""
        left: dict[str, str] = {}
        given = [entry.node.name for entry in _taken(turn) if not _kept(turn, entry, left)]
        stays = "; ".join(f"{name} stays {why}" for name, why in left.items())
        return Done({"given": given, "left": stays or "none"}, told=not given and not left)


def _taken(turn: Turn) -> QuerySet[LedgerEntry]:
    """Return the entries by which this step took nodes out; without an undo those of the whole execution."""
    steps = turn.execution.steps.filter(undo=False)
    mine = steps.filter(index=turn.execution.step_index) if turn.undoing else steps
    return taken(turn.execution, mine, turn.now)


def taken(execution: Execution, steps: QuerySet[StepRun], now: datetime) -> QuerySet[LedgerEntry]:
    """Return the entries by which an execution took nodes out while it was at `steps`, oldest first."""
    span = steps.aggregate(began=Min("started_at"), ended=Max("finished_at"))
    return LedgerEntry.objects.filter(
        incident_id=execution.incident_id, actor_kind=RUNBOOK, actor=execution.runbook, to_state__in=TAKEN,
        at__gte=span["began"] or now, at__lte=span["ended"] or now,
    ).select_related("node").order_by("pk")  # fmt: skip


def _kept(turn: Turn, entry: LedgerEntry, left: dict[str, str]) -> bool:
    """Give one node back, or note in `left` why it stays where it is."""
    name, key = entry.node.name, f"undo:{turn.execution.pk}:{entry.pk}"
    newest = ledger.moves(name).first()
    if newest is None or newest.pk != entry.pk:
        if newest is not None and not (newest.key or "").startswith(f"undo:{turn.execution.pk}:"):
            left[name] = f"{entry.node.state}, since it was moved meanwhile"
        return True
    if entry.to_state == NodeState.QUARANTINED and ledger.needs_repair(name, turn.now):
        left[name] = "quarantined, since it has failed too often lately"
        return True
    why = f"{turn.execution.undo_by or turn.runbook.id} took back what “{turn.runbook.title}” did"
    try:
        quarantine.move(
            name, _home(name), why, actor_kind=RUNBOOK, actor=turn.runbook.id, incident_id=turn.incident.pk, key=key,
            now=turn.now, certain=turn.undoing, book=turn.book,
        )  # fmt: skip
    except MiddlewatchError as refusal:
        left[name] = f"{entry.node.state}: {refusal}"
        return True
    turn.act(Do.RELEASE, why, node=name, args={"to": _home(name)}, key=key)
    return False


def _home(name: str) -> str:
    """A node in a living attempt trains; any other waits as a spare."""
    living = Attempt.objects.exclude(state=AttemptState.EXITED).filter(nodes__contains=[name])
    return NodeState.HEALTHY if living.exists() else NodeState.SPARE
