"""Read the node ledger."""

from collections.abc import Iterable
from datetime import datetime, timedelta

from django.db.models import F, Max, Q, QuerySet

from controlplane.domain.fleet import strikes as strike_rules
from controlplane.domain.fleet.states import KEPT_OUT
from controlplane.domain.fleet.strikes import Mark, offences
from controlplane.fleet.models import Node, NodeState
from controlplane.quarantine.models import LedgerEntry

RUNBOOK = "runbook"
MAX_MARKS = 1_000
RATE_WINDOW = timedelta(days=30)
"""Failures longer ago say little of the machines of today."""
TAKEN_OUT = (NodeState.QUARANTINED, NodeState.DRAINING)
_OF_A_REMOVAL = ("pk", "at", "to_state", "strike", "incident_id")
_OUT = (NodeState.QUARANTINED, NodeState.REPAIRING, NodeState.PROVING)
_RELEASED = Q(from_state__in=_OUT, to_state__in=(NodeState.SPARE, NodeState.HEALTHY))


def entries(node: str) -> QuerySet[LedgerEntry]:
    """Return the history of a node, newest first: its moves, and what was asked about it."""
    return LedgerEntry.objects.filter(node__name=node).select_related("node")


def moves(node: str) -> QuerySet[LedgerEntry]:
    """Return the moves of a node, newest first."""
    return entries(node).exclude(from_state=F("to_state"))


def released(nodes: Iterable[str]) -> dict[str, datetime]:
    """Map those of `nodes` that were kept out once to when they last came back."""
    back = LedgerEntry.objects.filter(node__name__in=list(nodes), from_state__in=KEPT_OUT).exclude(
        to_state__in=KEPT_OUT
    )
    return dict(back.order_by().values_list("node__name").annotate(Max("at")))


def kept_out() -> QuerySet[Node]:
    """Return the nodes that are in quarantine or on the way back, longest first."""
    states = (NodeState.QUARANTINED, NodeState.REPAIRING, NodeState.PROVING)
    return Node.objects.filter(state__in=states).order_by("state_since")


def marks(node: str) -> list[Mark]:
    """Return the strikes of a node and its releases, oldest first; a record of years is a few rows."""
    rows = LedgerEntry.objects.filter(node__name=node).filter(Q(strike=True) | _RELEASED).order_by("at", "id")
    return [
        Mark(at=at.timestamp(), strike=strike, release=not strike)
        for at, strike in rows.values_list("at", "strike")[:MAX_MARKS]
    ]


def strikes(node: str, now: datetime) -> int:
    """Count the offences of a node that have not faded (L-03, methods 8)."""
    return offences(marks(node), now.timestamp())


def needs_repair(node: str, now: datetime) -> bool:
    """Say whether the node failed too often lately to come back without a repair (methods 8)."""
    return strike_rules.needs_repair(marks(node), now.timestamp())


def removals(now: datetime, within: timedelta) -> list[datetime]:
    """Return when automation quarantined or drained nodes; what one incident of a group took counts once (L-07).

    A node that was out before is not taken out again.
    """
    rows = LedgerEntry.objects.filter(to_state__in=TAKEN_OUT, actor_kind=RUNBOOK, at__gt=now - within)
    rows = rows.exclude(from_state__in=KEPT_OUT)
    seen: dict[object, datetime] = {}
    for pk, at, to, strike, incident_id in rows.order_by("at", "id").values_list(*_OF_A_REMOVAL):
        group = incident_id and not strike and to == NodeState.QUARANTINED
        one = ("group", incident_id) if group else ("node", pk)
        seen.setdefault(one, at)
    return list(seen.values())


def failures(now: datetime) -> tuple[int, float]:
    """Return how many nodes failed in the last 30 days, a group as one, and the days that were watched of those."""
    first = Node.objects.filter(head=False).order_by("enrolled_at").values_list("enrolled_at", flat=True).first()
    watched = min(RATE_WINDOW, now - first) if first is not None else timedelta(0)
    return len(removals(now, RATE_WINDOW)), max(0.0, watched / timedelta(days=1))
