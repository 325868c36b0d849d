"""Append to the event log with COPY: many batches, one transaction.

Readers follow the log by a cursor, "events with an id above the last I saw". That
is only right when ids become visible in their own order, so everything from
drawing the first id to the commit happens under one advisory lock
(docs/decisions). The lock also makes reading and writing the received
sequence numbers one act. Appends are few because each carries many batches.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from middlewatch_wire import Decoded, Received

from controlplane.events import streams
from controlplane.events.streams import Refusal, Streams

LOCK = "SELECT pg_advisory_xact_lock(7744001)"
COPY = "COPY events_event (received_at, node, incarnation, seq, at_ms, kind, run, attempt, rank, data) FROM STDIN"
_NULL = b"\\N"


@dataclass(slots=True)
class Appended:
    """What became of one batch: `ack` as in the wire format, and the events that were new."""

    ack: int
    fresh: list[Received] = field(default_factory=list)
    refused: Refusal | None = None


def append(cursor: Any, batches: Sequence[Decoded], now: datetime) -> list[Appended]:
    """Write batches through a psycopg or Django cursor; nothing is durable before the caller commits.

    Must run inside a transaction. The same batch twice stores each event once.
    """
    if cursor.connection.autocommit and not cursor.connection.info.transaction_status:
        raise RuntimeError("append to the event log inside a transaction")
    cursor.execute(LOCK)
    cursor.execute(streams.READ, keys(batches))
    plan = Plan(cursor.fetchall(), batches, now)
    if plan.rows:
        with cursor.copy(COPY) as copy:
            copy.write(plan.rows)
    cursor.execute(streams.WRITE, plan.arguments)
    return plan.results


async def append_async(cursor: Any, batches: Sequence[Decoded], now: datetime) -> list[Appended]:
    """Do what `append` does through psycopg's asynchronous cursor."""
    await cursor.execute(LOCK)
    await cursor.execute(streams.READ, keys(batches))
    plan = Plan(await cursor.fetchall(), batches, now)
    if plan.rows:
        async with cursor.copy(COPY) as copy:
            await copy.write(plan.rows)
    await cursor.execute(streams.WRITE, plan.arguments)
    return plan.results


def keys(batches: Sequence[Decoded]) -> list[list[str]]:
    """Return the parameters of `streams.READ`."""
    agents = [batch.agent for batch in batches]
    return [list({agent.node for agent in agents}), list({agent.incarnation for agent in agents})]


class Plan:
    """What to write for some batches, given what had been received before; no I/O."""

    def __init__(self, known: Sequence[tuple[Any, ...]], batches: Sequence[Decoded], now: datetime) -> None:
        """Decide for each batch in turn; `known` are the rows of `streams.READ`."""
        self._streams = Streams(known)
        self._now = now.timestamp()
        self._received_at = now.astimezone(UTC).isoformat().encode()
        self._lines: list[bytes] = []
        self.results = [self._append(batch) for batch in batches]
        self.rows = b"".join(self._lines)
        self.arguments = self._streams.arguments(now)

    def _append(self, batch: Decoded) -> Appended:
        stream, refused = self._streams.admit(batch, self._now)
        if refused is Refusal.SUPERSEDED:
            return Appended(stream.ack, refused=refused)
        if refused is not None:
            batch = greeting(batch)
        fresh = stream.take(batch, self._now)
        self._lines += lines(self._received_at, batch, fresh)
        return Appended(stream.ack, fresh, refused)


def greeting(batch: Decoded) -> Decoded:
    """Keep only what a machine says about itself, so that the conflict can be seen."""
    hello = [event for event in batch.events if event.kind == "node.hello"]
    return Decoded(agent=batch.agent, sent_at_ms=batch.sent_at_ms, events=hello, rejected=[])


def lines(received_at: bytes, batch: Decoded, events: list[Received]) -> list[bytes]:
    """Write events as lines of COPY."""
    head = b"%b\t%b\t%b\t" % (received_at, _field(batch.agent.node), _field(batch.agent.incarnation))
    return [
        b"%b%d\t%d\t%b\t%b\t%b\t%b\t%b\n"
        % (
            head,
            event.seq,
            event.at_ms,
            _field(event.kind),
            _field(event.run),
            _NULL if event.attempt is None else b"%d" % event.attempt,
            _NULL if event.rank is None else b"%d" % event.rank,
            event.data.replace(b"\\", b"\\\\"),
        )
        for event in events
    ]


@lru_cache(maxsize=8192)
def _field(text: str | None) -> bytes:
    """Escape a column's text for COPY."""
    if text is None:
        return _NULL
    escaped = text.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")
    return escaped.encode()
