"""Move nodes between ledger states, each move with its reason, evidence and actor.

The ledger is append-only and keyed, so a repeated move writes nothing. A node
that an operator holds is not touched by automation, in either direction.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from django.db import transaction

from controlplane.domain.chronicle import sentences
from controlplane.domain.errors import Conflict, NotFound, Refused
from controlplane.fleet import actions as fleet
from controlplane.fleet.models import Node, NodeState
from controlplane.quarantine.models import LedgerEntry
from controlplane.runs.book import Book

PERSON = "person"


def move(
    name: str,
    to: str,
    reason: str,
    *,
    actor_kind: str,
    now: datetime,
    actor: str = "",
    evidence: Sequence[Mapping[str, Any]] = (),
    incident_id: int | None = None,
    strike: bool = False,
    key: str | None = None,
    book: Book | None = None,
) -> LedgerEntry:
    """Move a node to state `to` and write the ledger; the same `key` again returns the first entry.

    Raises:
        NotFound: no such node.
        Refused: a hold keeps automation away.
        Conflict: the node cannot go there from where it is.
    """
    with transaction.atomic():
        node = _locked(name)
        written = LedgerEntry.objects.filter(key=key).first() if key else None
        if written is not None:
            return written
        if node.held and actor_kind != PERSON:
            raise Refused(f"{name} is held by an operator")
        entry = LedgerEntry.objects.create(
            node=node, at=now, from_state=node.state, to_state=to, reason=reason, strike=strike, key=key,
            evidence=[dict(line) for line in evidence], actor_kind=actor_kind, actor=actor, incident_id=incident_id,
        )  # fmt: skip
        fleet.move_node(name, expected=node.state, to=to, reason=reason, actor_kind=actor_kind, now=now)
        _tell(entry, name, now, book)
    return entry


def _locked(name: str) -> Node:
    node = Node.objects.select_for_update(no_key=True).filter(name=name).first()
    if node is None:
        raise NotFound(f"no node is named {name}")
    return node


def _tell(entry: LedgerEntry, name: str, now: datetime, book: Book | None) -> None:
    mine = book or Book(now)
    kind, told = _words(entry, name)
    mine.tell(
        "fleet", kind, told, key=f"ledger:{entry.pk}", actor_kind=entry.actor_kind, actor=entry.actor,
        data={"node": name, "to": entry.to_state},
    )  # fmt: skip
    if book is None:
        mine.write()


def _words(entry: LedgerEntry, name: str) -> tuple[str, str]:
    if entry.to_state == NodeState.QUARANTINED:
        return "quarantine", sentences.quarantined(name, entry.reason)
    if entry.from_state == NodeState.QUARANTINED:
        return "release", sentences.full_stop(f"Node {name} left quarantine and is {entry.to_state}: {entry.reason}")
    return "action", sentences.full_stop(f"Node {name} is {entry.to_state}: {entry.reason}")


def quarantine(
    node: str,
    reason: str,
    evidence: Sequence[Mapping[str, Any]] = (),
    *,
    actor_kind: str,
    now: datetime,
    actor: str = "",
    incident_id: int | None = None,
    key: str | None = None,
    strike: bool = True,
    book: Book | None = None,
) -> LedgerEntry:
    """Keep a node out of training until somebody releases it.

    `evidence` holds lines `{at, weight, entity, text}`. Loss of a group adds no
    individual strike (L-07): pass `strike=False`. Raises as `move`.
    """
    if Node.objects.filter(name=node, state=NodeState.QUARANTINED).exists() and not _known(key):
        raise Conflict(f"{node} is quarantined already")
    return move(
        node, NodeState.QUARANTINED, reason, actor_kind=actor_kind, actor=actor, evidence=evidence,
        incident_id=incident_id, strike=strike, key=key, now=now, book=book,
    )  # fmt: skip


def _known(key: str | None) -> bool:
    return key is not None and LedgerEntry.objects.filter(key=key).exists()


def release(
    node: str, to: str = NodeState.SPARE, *, by: str, now: datetime, reason: str = "", actor_kind: str = PERSON
) -> LedgerEntry:
    """Let a node out of quarantine, on to `to` (repairing, proving or spare). Raises as `move`."""
    current = Node.objects.filter(name=node).values_list("state", flat=True).first()
    if current is not None and current != NodeState.QUARANTINED:
        raise Conflict(f"{node} is {current}, not quarantined")
    said = reason or f"released by {by}"
    return move(node, to, said, actor_kind=actor_kind, actor=by, now=now)


def admit(
    node: str, to: str = NodeState.SPARE, *, by: str, now: datetime, reason: str = "", actor_kind: str = PERSON
) -> LedgerEntry:
    """Take a node that is not quarantined into the pool. Raises as `move`."""
    if Node.objects.filter(name=node, state=NodeState.QUARANTINED).exists():
        raise Refused(f"{node} is quarantined: release it first")
    return move(node, to, reason or f"admitted by {by}", actor_kind=actor_kind, actor=by, now=now)


def join(nodes: Sequence[str], why: str, *, now: datetime, key: str, book: Book | None = None) -> None:
    """Turn the spares among `nodes` into training nodes; a held or missing node stays as it is."""
    spares = Node.objects.filter(name__in=nodes, state=NodeState.SPARE, held=False).values_list("name", flat=True)
    for name in sorted(spares):
        move(name, NodeState.HEALTHY, why, actor_kind="runbook", now=now, key=f"{key}:{name}", book=book)


def leave(nodes: Sequence[str], why: str, *, now: datetime, key: str, book: Book | None = None) -> None:
    """Turn the healthy among `nodes`, which an attempt no longer uses, back into spares."""
    idle = Node.objects.filter(name__in=nodes, state=NodeState.HEALTHY, held=False).values_list("name", flat=True)
    for name in sorted(idle):
        move(name, NodeState.SPARE, why, actor_kind="runbook", now=now, key=f"{key}:{name}", book=book)
