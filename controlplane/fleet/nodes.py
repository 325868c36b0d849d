"""What is written about nodes: their hello, when they were seen, and their state."""

from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import Q

from controlplane.domain.errors import Conflict, NotFound
from controlplane.domain.fleet import identity, states
from controlplane.domain.signals import Signal
from controlplane.events import queries as events
from controlplane.fleet.models import Node, NodeState

DISPUTE_ENDS = timedelta(minutes=5)
"""How long a refused machine must keep quiet before its name counts as undisputed."""


def hello(signal: Signal, now: datetime) -> Node | None:
    """Take down how an agent introduced its machine (`node.hello`); returns the node, None if unknown.

    Another machine under a name whose holder is alive changes nothing but the
    flag `identity_conflict`: neither is acted on as the other (methods 11.6). `seen`
    takes the flag back when the other has kept quiet for `DISPUTE_ENDS`.
    """
    with transaction.atomic():
        node = Node.objects.select_for_update().filter(name=signal.node).first()
        if node is None:
            return None
        hardware = _mapping(signal.data.get("hardware"))
        machine = identity.digest(hardware)
        if not _granted(node, signal, machine):
            Node.objects.filter(pk=node.pk).update(identity_conflict=True)
            node.identity_conflict = True
            return node
        _introduce(node, signal, hardware, machine)
        _first_state(node, now)
        node.save()
    return node


def _granted(node: Node, signal: Signal, machine: str) -> bool:
    """Follow what was decided when the batch was stored; judge here only where nothing was."""
    decided = events.speaks_for_name(signal.node, signal.incarnation)
    if decided is not None:
        return decided
    return identity.judge(_holder(node), signal.incarnation, machine, signal.received) is identity.Claim.GRANTED


def _holder(node: Node) -> identity.Holder | None:
    if not node.incarnation:
        return None
    seen = node.last_seen_at.timestamp() if node.last_seen_at else 0.0
    return identity.Holder(node.incarnation, node.identity, seen)


def _introduce(node: Node, signal: Signal, hardware: Mapping[str, Any], machine: str) -> None:
    data = signal.data
    node.incarnation, node.identity = signal.incarnation, machine
    node.boot_id = str(data.get("boot_id") or "")[:64]
    node.labels, node.hardware = dict(_mapping(data.get("labels"))), dict(hardware)
    node.capabilities = list(data.get("capabilities") or [])
    node.agent_version = str(data.get("agent_version") or node.agent_version)[:32]
    node.head = "launcher" in node.capabilities
    received = datetime.fromtimestamp(signal.received, UTC)
    node.last_seen_at = max(node.last_seen_at or received, received)


def _first_state(node: Node, now: datetime) -> None:
    if node.state == NodeState.UNKNOWN:
        node.state, node.state_since = NodeState.SPARE, now
        node.state_reason, node.state_actor_kind = "said hello", "system"


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def seen(node_names: Collection[str], now: datetime) -> int:
    """Note that events of these nodes arrived by `now`; a time never goes back.

    Also flags names that another machine still asks for, and takes the flag from the others.
    """
    known = Node.objects.filter(name__in=node_names)
    disputed = events.names_in_dispute(node_names, now - DISPUTE_ENDS)
    known.filter(identity_conflict=False, name__in=disputed).update(identity_conflict=True)
    known.filter(identity_conflict=True).exclude(name__in=disputed).update(identity_conflict=False)
    return known.filter(Q(last_seen_at=None) | Q(last_seen_at__lt=now)).update(last_seen_at=now)


def move_node(name: str, *, expected: str, to: str, reason: str, actor_kind: str, now: datetime) -> Node:
    """Move a node from the state the caller saw to another, or fail without a trace.

    Raises `Refused` when the table knows no such move, `Conflict` when the node is
    not in the `expected` state any more, `NotFound` when there is no such node.
    """
    states.check(expected, to)
    moved = Node.objects.filter(name=name, state=expected).update(
        state=to, state_reason=reason, state_actor_kind=actor_kind, state_since=now
    )
    node = Node.objects.filter(name=name).first()
    if node is None:
        raise NotFound(f"there is no node {name}")
    if not moved:
        raise Conflict(f"node {name} is {node.state}, not {expected}")
    return node


def hold_node(name: str, *, held: bool) -> Node:
    """Set or lift an operator's hold: automation keeps its hands off a held node (methods 11.24)."""
    if not Node.objects.filter(name=name).update(held=held):
        raise NotFound(f"there is no node {name}")
    return Node.objects.get(name=name)


def set_probation(name: str, until: datetime) -> None:
    """Note until when a node that came back is used last."""
    Node.objects.filter(name=name).update(probation_until=until)
