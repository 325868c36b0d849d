"""Move nodes between ledger states, each move with its reason, evidence and actor.

The ledger is append-only and keyed, so a repeated move writes nothing. A node
that an operator holds is not touched by automation, in either direction; nor is one about
which automation contradicts itself, unless the new verdict is certain.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction

from controlplane.domain.chronicle import sentences
from controlplane.domain.errors import Conflict, NotFound, Refused
from controlplane.domain.fleet import removals, strikes, verdicts
from controlplane.domain.fleet.identity import Kinship
from controlplane.domain.fleet.states import BANNED, KEPT_OUT, USABLE
from controlplane.fleet import actions as fleet
from controlplane.fleet import queries as fleet_queries
from controlplane.fleet.models import Node, NodeState
from controlplane.fleet.queries import Returned
from controlplane.quarantine import conflicts, queries
from controlplane.quarantine.freezing import TAKES_OUT, freeze, frozen, thaw
from controlplane.quarantine.models import LedgerEntry
from controlplane.runs import automation
from controlplane.runs.book import Book

__all__ = ["admit", "freeze", "join", "leave", "move", "quarantine", "refuse", "release", "thaw"]

PERSON = "person"
RUNBOOK = "runbook"
OUT = (NodeState.QUARANTINED, NodeState.REPAIRING, NodeState.PROVING)


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
    certain: bool = False,
    book: Book | None = None,
) -> LedgerEntry:
    """Move a node to state `to` and write the ledger; the same `key` again returns the first entry.

    `certain` says that no second opinion holds the move back: a fatal fault, a fence, a person's wish.

    Raises:
        NotFound: no such node.
        Refused: a hold or a freeze keeps automation away, it contradicts itself, or runbooks have
            quarantined too many nodes lately.
        Conflict: the node cannot go there from where it is.
    """
    if actor_kind != PERSON and not certain and not _known(key):
        _check_verdict(name, to, incident_id, now, book)
    with transaction.atomic():
        node = _locked(name)
        written = LedgerEntry.objects.filter(key=key).first() if key else None
        if written is not None:
            return written
        if actor_kind != PERSON:
            _check_automation(node, to)
        if to in TAKES_OUT and actor_kind == RUNBOOK and (frost := frozen(now)):
            raise Refused(f"automation takes no node out until {frost.until:%H:%M} UTC ({frost.why})")
        if to in queries.TAKEN_OUT and node.state not in KEPT_OUT and actor_kind == RUNBOOK:
            _check_removals(incident_id, now, strike=strike or to == NodeState.DRAINING)
        entry = LedgerEntry.objects.create(
            node=node, at=now, from_state=node.state, to_state=to, reason=reason, strike=strike, key=key,
            evidence=[dict(line) for line in evidence], actor_kind=actor_kind, actor=actor, incident_id=incident_id,
        )  # fmt: skip
        fleet.move_node(name, expected=node.state, to=to, reason=reason, actor_kind=actor_kind, now=now)
        _note_probation(entry, name)
        _tell(entry, name, now, book)
    return entry


def _check_automation(node: Node, to: str) -> None:
    """Hold automation to what it may do to a node at all.

    Joining and leaving an attempt follow from a launch and are no verdict of their own.
    """
    if node.held:
        raise Refused(f"{node.name} is held by an operator")
    if {node.state, to} <= USABLE:
        return
    off = automation.share(None).why_off
    if off:
        raise Refused(off)
    if to in USABLE and node.state_actor_kind == PERSON and node.state in KEPT_OUT:
        raise Refused(f"a person made {node.name} {node.state}, so automation leaves it to people")


def _check_verdict(name: str, to: str, incident_id: int | None, now: datetime, book: Book | None) -> None:
    """Freeze a node about which automation contradicts itself; the history of node and fleet say so once."""
    node = Node.objects.filter(name=name).first()
    if node is None or node.held or verdicts.blames(node.state, to) is None:
        return
    if conflicts.frozen(name, now):
        raise Refused(sentences.frozen(name))
    opposite = conflicts.contradicted(name, node.state, to, incident_id, now)
    if opposite is None:
        return
    mine, key = book or Book(now), f"{conflicts.PREFIX}{opposite.pk}"
    told = sentences.contradicted(name, to, opposite.to_state, opposite.at)
    note(name, told, actor="verdicts", key=key, now=now, book=mine)
    if book is None:
        mine.write()
    raise Refused(sentences.frozen(name))


def _check_removals(incident_id: int | None, now: datetime, *, strike: bool) -> None:
    """Bound how fast automation empties the fleet (methods 8); a group's loss is one decision."""
    if not strike and incident_id and LedgerEntry.objects.filter(incident_id=incident_id, **_REMOVED).exists():
        return
    nodes = fleet_queries.all_nodes().count()
    taken = queries.removals(now, timedelta(seconds=removals.horizon_s(nodes)))
    bucket = removals.bucket(nodes, [at.timestamp() for at in taken], now.timestamp())
    if not bucket.has_token(now.timestamp()):
        minutes = f"{bucket.next_token_s(now.timestamp()) / 60:.0f} min"
        raise Refused(f"automation has taken {len(taken)} nodes out lately and may take the next in {minutes}")


_REMOVED = {"to_state": NodeState.QUARANTINED, "actor_kind": RUNBOOK, "strike": False}


def _note_probation(entry: LedgerEntry, name: str) -> None:
    """A node that comes back from quarantine is used last, and what it does counts double (methods 8)."""
    back = entry.from_state in OUT and entry.to_state in (NodeState.SPARE, NodeState.HEALTHY)
    if back:
        fleet.set_probation(name, entry.at + timedelta(seconds=strikes.PROBATION_S))


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
    certain: bool = False,
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
        incident_id=incident_id, strike=strike, key=key, now=now, certain=certain, book=book,
    )  # fmt: skip


def note(node: str, told: str, *, actor: str, key: str, now: datetime, book: Book) -> LedgerEntry:
    """Write into a node's history what was asked about it and moved nothing; the same `key` writes once."""
    with transaction.atomic():
        state = _locked(node)
        entry, new = LedgerEntry.objects.get_or_create(
            key=key,
            defaults={
                "node": state, "at": now, "from_state": state.state, "to_state": state.state, "reason": told,
                "actor_kind": "system", "actor": actor,
            },
        )  # fmt: skip
        if new:
            book.tell("fleet", "action", told, key=f"ledger:{entry.pk}", actor=actor, actor_kind="system",
                      data={"node": node, "to": state.state})  # fmt: skip
    return entry


def _known(key: str | None) -> bool:
    return key is not None and LedgerEntry.objects.filter(key=key).exists()


def release(
    node: str, to: str = NodeState.SPARE, *, by: str, now: datetime, reason: str = "", actor_kind: str = PERSON
) -> LedgerEntry:
    """Let a node out of quarantine, on to `to` (repairing, proving or spare). Raises as `move`.

    Automation sends no node back to the pool that failed again and again (`Refused`, methods 8).
    """
    current = Node.objects.filter(name=node).values_list("state", flat=True).first()
    if current is not None and current != NodeState.QUARANTINED:
        raise Conflict(f"{node} is {current}, not quarantined")
    if actor_kind != PERSON and to in (NodeState.SPARE, NodeState.HEALTHY) and queries.needs_repair(node, now):
        raise Refused(f"{node} has failed too often lately to come back without a repair")
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


def refuse(returned: Returned, *, now: datetime, book: Book | None = None) -> LedgerEntry | None:
    """Keep out a machine that is recognised under another name (L-01).

    None when it is kept out already or a person let it in knowing that. It is no strike: the
    machine has its strikes under the other name. A node that an operator holds stays as it is (`Refused`).
    """
    name, before = returned.node.name, returned.before
    if returned.node.state in BANNED or _let_in_by_person(returned):
        return None
    what = "the same machine as" if returned.kinship is Kinship.SAME else "a machine with GPUs of"
    reason = f"is {what} node {before.name}, which is {before.state}: {before.state_reason}"
    return move(
        name, NodeState.QUARANTINED, f"node {name} {reason}", actor_kind="system", actor="identity", now=now,
        key=f"returned:{name}:{returned.node.incarnation}:{before.name}", certain=True, book=book,
    )  # fmt: skip


def _let_in_by_person(returned: Returned) -> bool:
    newest = queries.moves(returned.node.name).first()
    return newest is not None and newest.actor_kind == PERSON and newest.at > returned.before.state_since
