"""What has been received of each incarnation, and which one speaks for its node.

Both are decided under the log's lock and stored with the events themselves, so
several ingest processes can never disagree about them.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

import msgspec
from middlewatch_wire import Decoded, Received

from controlplane.domain.fleet import identity
from controlplane.events.ranges import Ranges

READ = """
    SELECT node, incarnation, base, seen::text, identity, holder, superseded,
           extract(epoch FROM last_seen_at)::float8
    FROM events_stream WHERE node = ANY(%s) AND (holder OR incarnation = ANY(%s))
"""
WRITE = """
    INSERT INTO events_stream AS old
        (node, incarnation, base, seen, identity, holder, superseded, first_seen_at, last_seen_at)
    SELECT node, incarnation, base, seen::int8multirange, identity, holder, superseded, %s, to_timestamp(last_seen)
    FROM unnest(%s::text[], %s::text[], %s::bigint[], %s::text[], %s::text[], %s::bool[], %s::bool[], %s::float8[])
        AS new (node, incarnation, base, seen, identity, holder, superseded, last_seen)
    ON CONFLICT (node, incarnation) DO UPDATE SET seen = EXCLUDED.seen, identity = EXCLUDED.identity,
        holder = EXCLUDED.holder, superseded = EXCLUDED.superseded, last_seen_at = EXCLUDED.last_seen_at
"""
COLUMNS = ("node", "incarnation", "base", "seen", "identity", "holder", "superseded", "last_seen")


class Refusal(StrEnum):
    """Why a batch is not taken (wire: 409)."""

    SUPERSEDED = "superseded"
    IDENTITY_CONFLICT = "identity_conflict"


@dataclass(slots=True)
class Stream:
    """One life of one agent; `base` is the first number of the first batch that came."""

    node: str
    incarnation: str
    base: int
    seen: Ranges = field(default_factory=Ranges)
    identity: str = ""
    holder: bool = False
    superseded: bool = False
    last_seen: float = 0.0
    touched: bool = False

    @property
    def ack(self) -> int:
        """Number up to which the agent may forget."""
        return self.seen.end_of(self.base)

    def take(self, batch: Decoded, now: float) -> list[Received]:
        """Mark a batch as received and return the events that are new."""
        self.last_seen, self.touched = max(self.last_seen, now), True
        fresh = [event for event in batch.events if self.seen.add(event.seq)]
        for rejected in batch.rejected:
            self.seen.add(rejected.seq)
        return fresh


class Streams:
    """The streams that one append is about."""

    def __init__(self, rows: Iterable[tuple[Any, ...]]) -> None:
        """Take the rows of `READ`."""
        self._all = {(row[0], row[1]): _stream(row) for row in rows}
        self._holders = {stream.node: stream for stream in self._all.values() if stream.holder}

    def admit(self, batch: Decoded, now: float) -> tuple[Stream, Refusal | None]:
        """Return the batch's stream, made when it is new, and whether it must be refused."""
        agent = batch.agent
        key = (agent.node, agent.incarnation)
        stream = self._all.get(key) or Stream(agent.node, agent.incarnation, _lowest(batch))
        self._all[key] = stream
        if stream.superseded:
            return stream, Refusal.SUPERSEDED
        hello = next((event for event in batch.events if event.kind == "node.hello"), None)
        if hello is not None:
            return stream, self._claim(stream, _identity(hello), now)
        if stream.identity and not stream.holder:
            return stream, self._claim(stream, stream.identity, now)
        return stream, None

    def _claim(self, stream: Stream, machine: str, now: float) -> Refusal | None:
        holder = self._holders.get(stream.node)
        stream.identity, stream.touched = machine, True
        held_by = None
        if holder is not None:
            held_by = identity.Holder(holder.incarnation, holder.identity, holder.last_seen)
        claim = identity.judge(held_by, stream.incarnation, machine, now)
        if claim is identity.Claim.CONFLICT:
            return Refusal.IDENTITY_CONFLICT
        if holder is not None and holder is not stream:
            holder.holder, holder.superseded, holder.touched = False, True, True
        stream.holder = True
        self._holders[stream.node] = stream
        return None

    def arguments(self, now: datetime) -> list[Any]:
        """Return the parameters of `WRITE` for every stream that changed; former holders first."""
        changed = sorted((s for s in self._all.values() if s.touched), key=lambda stream: stream.holder)
        columns = [[getattr(stream, name) for stream in changed] for name in COLUMNS]
        columns[COLUMNS.index("seen")] = [str(stream.seen) for stream in changed]
        return [now, *columns]


def _stream(row: tuple[Any, ...]) -> Stream:
    node, incarnation, base, seen, machine, holder, superseded, last_seen = row
    return Stream(node, incarnation, base, Ranges.parse(seen), machine, holder, superseded, last_seen)


def _lowest(batch: Decoded) -> int:
    numbers = [event.seq for event in batch.events] + [rejected.seq for rejected in batch.rejected]
    return min(numbers, default=1)


def _identity(hello: Received) -> str:
    data = msgspec.json.decode(hello.data)
    return identity.digest(data.get("hardware") or {})
