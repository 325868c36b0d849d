"""Let arrivals through the same gate as ingest: encode, decode, de-duplicate, append.

What an event says, who may speak and which number counts twice is decided by the code
that decides it live. Beats that have nothing to tell are decoded once for each node.
"""

from collections import defaultdict

import msgspec
from django.db import connection, transaction
from middlewatch_wire import AgentIdentity, Batch, Decoded, Event, Received, decode_batch, encode_batch
from middlewatch_wire.limits import MAX_AT_MS

from controlplane.domain.signals import Signal
from controlplane.events.bulk import BulkLog
from controlplane.replay.clock import BASE, BASE_MS, BASE_S, at
from controlplane.replay.errors import TraceError
from controlplane.replay.expand import Arrival

UNREAD = ("node.heartbeat", "node.health")
"""Kinds that nothing reads back from the log; a day of them would only fill it."""
MAX_LOST_CLOCK_MS = 366 * 86_400_000
"""How far before the trace's zero a sender's clock may stand."""


class Inbox:
    """Turns arrivals into signals, and keeps the log."""

    def __init__(self) -> None:
        """Begin with an empty log."""
        self._log = BulkLog(dropped=UNREAD)
        self._newest: dict[tuple[str, str], int] = defaultdict(int)
        self._agents: dict[tuple[str, str], AgentIdentity] = {}
        self._beats: dict[tuple[str, bytes], tuple[bytes, dict[str, object]]] = {}
        self._t, self._now, self._now_s = 0.0, BASE, BASE_S
        self.events = 0

    def take(self, arrival: Arrival) -> list[Signal]:
        """Take one event in; nothing comes out of one that was there before or is refused.

        Raises:
            TraceError: the event breaks the wire format.
        """
        agent = self._agent(arrival)
        if arrival.beat is not None:
            batch, data = self._beat(agent, arrival)
        else:
            batch, data = self._event(agent, arrival), None
        self.events += 1
        if arrival.t != self._t:
            self._t, self._now = arrival.t, at(arrival.t)
            self._now_s = self._now.timestamp()
        fresh = self._log.take(batch, self._now, self._now_s).fresh
        return [_signal(agent, event, self._now_s, data) for event in fresh]

    def write(self) -> None:
        """Write what was taken since the last call."""
        with transaction.atomic(), connection.cursor() as cursor:
            self._log.write(cursor)

    def _agent(self, arrival: Arrival) -> AgentIdentity:
        name = (arrival.node, arrival.incarnation or f"{arrival.node}-life"[:64])
        known = self._agents.get(name)
        if known is None:
            known = self._agents[name] = AgentIdentity(node=name[0], incarnation=name[1])
        return known

    def _number(self, agent: AgentIdentity, given: int | None = None) -> int:
        key = (agent.node, agent.incarnation)
        number = self._newest[key] + 1 if given is None else given
        self._newest[key] = max(self._newest[key], number)
        return number

    def _beat(self, agent: AgentIdentity, arrival: Arrival) -> tuple[Decoded, dict[str, object]]:
        assert arrival.beat is not None  # noqa: S101 - asked by the caller
        kind, raw = arrival.beat
        known = self._beats.get((kind, bytes(raw)))
        if known is None:
            event = Event(seq=1, at_ms=BASE_MS, kind=kind, data=raw)
            clean = _decoded(Batch(agent=agent, sent_at_ms=BASE_MS, events=[event]), arrival.line).events[0].data
            known = self._beats[(kind, bytes(raw))] = (clean, msgspec.json.decode(clean))
        at_ms = BASE_MS + round(arrival.t * 1000)
        received = Received(self._number(agent), at_ms, kind, None, None, None, known[0])
        return Decoded(agent=agent, sent_at_ms=at_ms, events=[received], rejected=[]), known[1]

    def _event(self, agent: AgentIdentity, arrival: Arrival) -> Decoded:
        said = arrival.event
        assert said is not None  # noqa: S101 - asked by the caller
        if not -MAX_LOST_CLOCK_MS <= said.at_ms <= MAX_AT_MS - BASE_MS:
            raise TraceError(arrival.line, f"at_ms {said.at_ms:g} is out of range")
        event = Event(
            seq=self._number(agent, said.seq), at_ms=BASE_MS + round(said.at_ms), kind=said.kind,
            run=said.run, attempt=said.attempt, rank=said.rank, data=_shifted(said.kind, said.data),
        )  # fmt: skip
        return _decoded(Batch(agent=agent, sent_at_ms=BASE_MS + round(arrival.t * 1000), events=[event]), arrival.line)


def _shifted(kind: str, data: msgspec.Raw) -> msgspec.Raw:
    """Move the times inside an event along with its own."""
    if kind != "capacity.notice":
        return data
    found = msgspec.json.decode(data)
    for name in ("begins_at_ms", "ends_at_ms"):
        if isinstance(found, dict) and isinstance(found.get(name), int | float):
            found[name] = BASE_MS + round(found[name])
    return msgspec.Raw(msgspec.json.encode(found))


def _decoded(batch: Batch, line: int) -> Decoded:
    try:
        decoded = decode_batch(encode_batch(batch))
    except (ValueError, msgspec.MsgspecError) as error:
        raise TraceError(line, f"the event cannot be read: {error}") from None
    if decoded.rejected:
        wrong = decoded.rejected[0]
        raise TraceError(line, f"{wrong.field}: {wrong.reason}")
    return decoded


def _signal(agent: AgentIdentity, event: Received, now: float, data: dict[str, object] | None) -> Signal:
    return Signal(
        kind=event.kind, received=now, at_ms=event.at_ms, node=agent.node,
        incarnation=agent.incarnation, run=event.run, attempt=event.attempt, rank=event.rank,
        data=msgspec.json.decode(event.data) if data is None else data,
    )  # fmt: skip
