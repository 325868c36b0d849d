"""Reads of the fleet."""

from collections.abc import Collection
from uuid import UUID

from django.db.models import QuerySet

from controlplane.domain.errors import NotFound
from controlplane.fleet.models import Command, Node, NodeState


def node(name: str) -> Node:
    """Return a node or raise `NotFound`."""
    found = Node.objects.filter(name=name).first()
    if found is None:
        raise NotFound(f"there is no node {name}")
    return found


def all_nodes() -> QuerySet[Node]:
    """Every node that is not retired, by name."""
    return Node.objects.exclude(state=NodeState.RETIRED).order_by("name")


def nodes_for(names: Collection[str]) -> list[Node]:
    """Return the nodes of these names, by name; unknown names are left out."""
    return list(Node.objects.filter(name__in=names).order_by("name"))


def spares() -> list[Node]:
    """Return nodes that automation may take into a run: spare, no head, not held, no doubt who they are."""
    free = Node.objects.filter(state=NodeState.SPARE, head=False, held=False, identity_conflict=False)
    return list(free.order_by("name"))


def heads() -> list[Node]:
    """Return the nodes whose agents launch runs."""
    return list(Node.objects.filter(head=True).exclude(state=NodeState.RETIRED).order_by("name"))


def command(command_id: str | UUID) -> Command:
    """Return a command or raise `NotFound`."""
    found = Command.objects.filter(pk=command_id).select_related("node").first()
    if found is None:
        raise NotFound("there is no such command")
    return found


def commands_of(execution_id: int) -> list[Command]:
    """Return the commands that an execution sent, oldest first."""
    return list(Command.objects.filter(execution_id=execution_id).select_related("node").order_by("created_at"))
