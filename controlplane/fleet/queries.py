"""Reads of the fleet."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db.models import F, Q, QuerySet

from controlplane.domain.errors import NotFound
from controlplane.domain.fleet import identity, states
from controlplane.domain.fleet.states import KEPT_OUT
from controlplane.fleet.commands import FINAL
from controlplane.fleet.models import Command, Node, NodeState

MAX_COMPARED = 500


@dataclass(frozen=True, slots=True)
class Returned:
    """A machine that says hello as `node` and is the one that is kept out as `before`."""

    node: Node
    before: Node
    kinship: identity.Kinship


def node(name: str) -> Node:
    """Return a node or raise `NotFound`."""
    found = Node.objects.filter(name=name).first()
    if found is None:
        raise NotFound(f"there is no node {name}")
    return found


def all_nodes() -> QuerySet[Node]:
    """Every node that is not retired, by name."""
    return Node.objects.exclude(state=NodeState.RETIRED).order_by("name")


def commands_open(kind: str, args: Mapping[str, Any], now: datetime) -> bool:
    """Tell whether a command with exactly these arguments still waits for its outcome."""
    waiting = Command.objects.exclude(state__in=FINAL).filter(kind=kind, deadline__gt=now)
    return waiting.filter(args=dict(args)).exists()


def nodes_for(names: Collection[str]) -> list[Node]:
    """Return the nodes of these names, by name; unknown names are left out."""
    return list(Node.objects.filter(name__in=names).order_by("name"))


def differs(label: str, value: str) -> bool:
    """Say whether a node has another value of a label: one that every node shares tells nothing."""
    return Node.objects.filter(labels__has_key=label).exclude(**{f"labels__{label}": value}).exists()


def spares() -> list[Node]:
    """Return nodes that automation may take into a run: spare, no head, not held, no doubt who they are.

    Those that came back from quarantine last stand at the end: they are used last (methods 8).
    """
    free = Node.objects.filter(state=NodeState.SPARE, head=False, held=False, identity_conflict=False)
    return list(free.order_by(F("probation_until").asc(nulls_first=True), "name"))


def kept_out() -> list[Node]:
    """Return the nodes that the ledger keeps out of training, by name."""
    return list(Node.objects.filter(state__in=KEPT_OUT).order_by("name"))


def training() -> int:
    """Count the nodes that train or could at once, spares and heads left out."""
    return Node.objects.filter(state=NodeState.HEALTHY, head=False).count()


def in_conflict() -> list[str]:
    """Return the names that two machines claim."""
    return list(Node.objects.filter(identity_conflict=True).order_by("name").values_list("name", flat=True))


def returned(name: str, now: datetime) -> Returned | None:
    """Recognise in the node `name` a machine that the ledger keeps out under another name (L-01).

    Serial numbers decide, and where they say nothing half of the GPUs. A machine that
    still speaks under its own name is another one with copied identifiers; so is one
    whose identifiers several names share.
    """
    here = Node.objects.filter(name=name).first()
    if here is None:
        return None
    silent = Q(last_seen_at=None) | Q(last_seen_at__lte=now - timedelta(seconds=identity.SILENT_AFTER_S))
    away = Node.objects.filter(silent, state__in=states.BANNED).exclude(name=name).order_by("-state_since")
    for other in away[:MAX_COMPARED]:
        kin = identity.kinship(here.hardware, other.hardware)
        if kin is identity.Kinship.GPUS or (kin is identity.Kinship.SAME and not _is_shared(here)):
            return Returned(here, other, kin)
    return None


def _is_shared(node: Node) -> bool:
    twins = Node.objects.filter(identity=node.identity).exclude(name=node.name)
    return twins.exclude(state__in=states.BANNED).exists()


def heads() -> list[Node]:
    """Return the nodes whose agents launch runs."""
    return list(Node.objects.filter(head=True).exclude(state=NodeState.RETIRED).order_by("name"))


def command(command_id: str | UUID) -> Command:
    """Return a command or raise `NotFound`."""
    found = Command.objects.filter(pk=command_id).select_related("node").first()
    if found is None:
        raise NotFound("there is no such command")
    return found
