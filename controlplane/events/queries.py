"""Reads of the event log."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import connection
from django.db.models import Q

from controlplane.domain.signals import Signal
from controlplane.events.models import Event
from controlplane.events.streams import Refusal

FIELDS = ("id", "received_at", "node", "incarnation", "seq", "at_ms", "kind", "run", "attempt", "rank", "data")
MAX_LIMIT = 10_000
"""Events or points that one read returns at most."""


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """One event of the log; ids grow in the order in which events became visible."""

    id: int
    received_at: datetime
    node: str
    incarnation: str
    seq: int
    at_ms: int
    kind: str
    run: str | None
    attempt: int | None
    rank: int | None
    data: dict[str, Any]

    def signal(self) -> Signal:
        """Return the event as reducers take it in."""
        return Signal(
            kind=self.kind, received=self.received_at.timestamp(), at_ms=self.at_ms, node=self.node,
            incarnation=self.incarnation, run=self.run, attempt=self.attempt, rank=self.rank, data=self.data,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class StepPoint:
    """One step for a chart; `at` is seconds since the epoch on the rank's clock."""

    at: float
    step: int
    duration_ms: float | None
    tokens: int | None
    loss: float | str | None


def since(
    event_id: int, *, run: str | None = None, nodes: Collection[str] | None = None, limit: int = 1000
) -> list[StoredEvent]:
    """Return events with an id above `event_id`, in commit order.

    With a `run`: its events, and those of `nodes` that belong to no run. Without:
    the events that belong to no run, of `nodes` or (None) of the whole fleet.
    """
    newer = Event.objects.filter(id__gt=event_id)
    of_nodes = newer.filter(run=None)
    if nodes is not None:
        of_nodes = of_nodes.filter(node__in=list(nodes))
    if run is None:
        return _read(of_nodes, limit)
    found = _read(newer.filter(run=run), limit)
    if nodes:
        found = sorted(found + _read(of_nodes, limit), key=lambda event: event.id)
    return found[: _bounded(limit)]


def newest(run: str, nodes: Collection[str], *, since: datetime, limit: int) -> list[StoredEvent]:
    """Return the last `limit` events of a run and of its nodes received after `since`, in commit order."""
    recent = Event.objects.filter(received_at__gte=since)
    wanted = recent.filter(Q(run=run) | Q(run=None, node__in=list(nodes)))
    rows = wanted.order_by("-id").values_list(*FIELDS)[:limit]
    return [StoredEvent(*row) for row in reversed(rows)]


def of_attempt(
    kinds: Collection[str], *, run: str, attempt: int, since: datetime, limit: int = 1000
) -> list[StoredEvent]:
    """Return events of some kinds about one attempt received from `since` on, in commit order."""
    recent = Event.objects.filter(received_at__gte=since, run=run, kind__in=list(kinds), attempt=attempt)
    return _read(recent, limit)


def latest(kind: str, *, node: str | None = None, run: str | None = None) -> StoredEvent | None:
    """Return the newest event of a kind, of a node or a run."""
    found = Event.objects.filter(kind=kind)
    if node is not None:
        found = found.filter(node=node)
    if run is not None:
        found = found.filter(run=run)
    newest = found.order_by("-id").values_list(*FIELDS).first()
    return StoredEvent(*newest) if newest else None


def tail(*, node: str | None = None, run: str | None = None, limit: int = 100) -> list[StoredEvent]:
    """Return the newest events of a node or a run, newest first."""
    found = Event.objects.all()
    if node is not None:
        found = found.filter(node=node)
    if run is not None:
        found = found.filter(run=run)
    return [StoredEvent(*row) for row in found.order_by("-id").values_list(*FIELDS)[: _bounded(limit)]]


def speaks_for_name(node: str, incarnation: str) -> bool | None:
    """Say whether this life of an agent was granted its node's name; None when nothing was received of it.

    False: another machine holds the name (methods 11.6).
    """
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT holder OR superseded OR identity = '' FROM events_stream WHERE node = %s AND incarnation = %s",
            [node, incarnation],
        )
        row = cursor.fetchone()
    return None if row is None else bool(row[0])


def refused(lives: Collection[tuple[str, str]]) -> dict[tuple[str, str], Refusal]:
    """Say which lives of agents, each a node and an incarnation, may not speak and act for their nodes, and why.

    Those of which nothing is known yet may.
    """
    nodes, incarnations = [node for node, _ in lives], [incarnation for _, incarnation in lives]
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT node, incarnation, superseded FROM events_stream"
            " JOIN unnest(%s::text[], %s::text[]) AS life (node, incarnation) USING (node, incarnation)"
            " WHERE superseded OR (identity <> '' AND NOT holder)",
            [nodes, incarnations],
        )
        return {
            (node, incarnation): Refusal.SUPERSEDED if superseded else Refusal.IDENTITY_CONFLICT
            for node, incarnation, superseded in cursor.fetchall()
        }


def heard_since(node: str, since: datetime) -> bool:
    """Tell whether a life of this node's agent that still counts was heard after `since`."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT EXISTS (SELECT FROM events_stream WHERE node = %s AND last_seen_at > %s AND NOT superseded)",
            [node, since],
        )
        return bool(cursor.fetchone()[0])


def names_in_dispute(nodes: Collection[str], since: datetime) -> set[str]:
    """Return those of `nodes` whose name another machine was refused after `since` (methods 11.6)."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT DISTINCT node FROM events_stream WHERE node = ANY(%s) AND last_seen_at > %s"
            " AND identity <> '' AND NOT holder AND NOT superseded",
            [list(nodes), since],
        )
        return {node for (node,) in cursor.fetchall()}


def last_id() -> int:
    """Return the id of the newest event, 0 for an empty log."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT coalesce(max(id), 0) FROM events_event")
        return int(cursor.fetchone()[0])


def step_series(run: str, *, since: datetime | None = None, limit: int = 2000) -> list[StepPoint]:
    """Return the newest `limit` steps of a run, received after `since`, oldest first."""
    found = Event.objects.filter(run=run, kind="rank.step")
    if since is not None:
        found = found.filter(received_at__gte=since)
    newest = found.order_by("-id").values_list("at_ms", "data")[: _bounded(limit)]
    return [_point(at_ms, data) for at_ms, data in reversed(newest)]


def gradient_norms(
    run: str, attempt: int, *, nodes: Collection[str], since: datetime, limit: int, newest: bool = False
) -> list[float]:
    """Return gradient norms of an attempt's steps received from `since` on: of the first `limit` steps, or the last.

    The log holds what any agent says: only `nodes`, those of the attempt, are believed.
    """
    found = Event.objects.filter(received_at__gte=since, run=run, kind="rank.step", attempt=attempt, node__in=nodes)
    rows = found.order_by("-id" if newest else "id").values_list("data", flat=True)[: _bounded(limit)]
    told = (data.get("grad_norm") for data in rows)
    return [float(norm) for norm in told if isinstance(norm, int | float)]


def _point(at_ms: int, data: dict[str, Any]) -> StepPoint:
    duration = data.get("duration_ms")
    return StepPoint(
        at=at_ms / 1000, step=data["step"], tokens=data.get("tokens"), loss=data.get("loss"),
        duration_ms=None if isinstance(duration, str) else duration,
    )  # fmt: skip


def _read(found: Any, limit: int) -> list[StoredEvent]:
    return [StoredEvent(*row) for row in found.order_by("id").values_list(*FIELDS)[: _bounded(limit)]]


def _bounded(limit: int) -> int:
    return max(0, min(limit, MAX_LIMIT))
