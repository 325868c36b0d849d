"""Read the node ledger."""

from datetime import datetime, timedelta

from django.db.models import QuerySet

from controlplane.fleet.models import Node, NodeState
from controlplane.quarantine.models import LedgerEntry


def entries(node: str) -> QuerySet[LedgerEntry]:
    """Return the moves of a node, newest first."""
    return LedgerEntry.objects.filter(node__name=node).select_related("node")


def kept_out() -> QuerySet[Node]:
    """Return the nodes that are in quarantine or on the way back, longest first."""
    states = (NodeState.QUARANTINED, NodeState.REPAIRING, NodeState.PROVING)
    return Node.objects.filter(state__in=states).order_by("state_since")


def strikes(node: str, now: datetime, window: timedelta = timedelta(days=30)) -> int:
    """Count the strikes of a node within `window` (L-03)."""
    return LedgerEntry.objects.filter(node__name=node, strike=True, at__gt=now - window).count()
