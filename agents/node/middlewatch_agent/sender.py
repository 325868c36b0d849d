"""Carry the spool to the control plane: one batch in flight, in order, until it is acknowledged.

The newest heartbeat goes to the head of the next batch and never into the spool's
queue: after an outage the control plane learns at once that the node lives, not
when the backlog has gone through.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any

import msgspec

from middlewatch_agent import __version__, kinds
from middlewatch_agent.backoff import Backoff
from middlewatch_agent.spool import Flight, Spool, Waiting, waiting
from middlewatch_agent.transport import Answer, Connection, Token, UnreachableError

log = logging.getLogger(__name__)

WIRE_VERSION = 1
INGEST = "/api/v1/ingest"
CONFLICT_WAIT_S = 30.0
BLOCKED = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.CONFLICT)
MAX_CHUNK = 1 << 30
MAX_NEXT_IN_S = 60.0
MIN_NEXT_IN_S = 0.05

_encode = msgspec.json.Encoder().encode


class Sender:
    """A thread of its own; `wake` and `heartbeat` may be called from any thread."""

    def __init__(
        self,
        spool: Spool,
        connection: Connection,
        token: Token,
        *,
        node: str,
        hello: Callable[[], Mapping[str, Any]],
        flush_s: float,
        backoff: Backoff,
        nudge: Callable[[], None] = lambda: None,
    ) -> None:
        """Prepare; `run` does the work.

        `hello` gives the data of this incarnation's first event; `nudge` is called when the
        control plane answers again after trouble, or says that commands wait.
        """
        self.spool = spool
        self.node = node
        self.rejected = 0
        self.trouble: str | None = None
        self._connection = connection
        self._token = token
        self._hello: Callable[[], Mapping[str, Any]] | None = hello
        self._beat: bytes | None = None
        self._ordinary_s = flush_s
        self._flush_s = flush_s
        self._backoff = backoff
        self._nudge = nudge
        self._chunk = MAX_CHUNK
        self._not_before = 0.0
        self._due: float | None = time.monotonic()
        self._changed = threading.Condition()
        self._closing_at: float | None = None

    # ── from any thread ────────────────────────────────────────────────────

    def wake(self, kind: str, *, urgent: bool = False) -> None:
        """Tell that an event of this kind was spooled."""
        self._want(0.0 if urgent else kinds.delay_s(kind, self._ordinary_s))

    def heartbeat(self, data: Mapping[str, Any], at_ms: int) -> None:
        """Offer the newest heartbeat; one that has not left yet is replaced."""
        body = kinds.encode({"kind": "node.heartbeat", "at_ms": at_ms, "data": data}, at_ms)
        with self._changed:
            self._beat = body
        self._want(0.0)

    def close(self, within_s: float) -> None:
        """Ask `run` to end when nothing waits any more, at the latest after this time."""
        with self._changed:
            self._closing_at = time.monotonic() + within_s
            self._due = time.monotonic()
            self._changed.notify()

    def _want(self, delay_s: float) -> None:
        due = time.monotonic() + delay_s
        with self._changed:
            if self._due is None or due < self._due:
                self._due = due
                self._changed.notify()

    # ── the thread ─────────────────────────────────────────────────────────

    def run(self) -> None:
        """Send until `close`."""
        while self._wait():
            more = self._send_safely()
            with self._changed:
                if more and self._due is None:
                    self._due = time.monotonic()
                elif not more and self._closing_at is not None:
                    break
        self._connection.close()

    def _wait(self) -> bool:
        with self._changed:
            while True:
                now = time.monotonic()
                if self._closing_at is not None and now >= self._closing_at:
                    return False
                due = None if self._due is None else max(self._due, self._not_before)
                if due is not None and now >= due:
                    self._due = None
                    return True
                ends = [moment for moment in (due, self._closing_at) if moment is not None]
                self._changed.wait(min(ends) - now if ends else None)

    def _send_safely(self) -> bool:
        """Keep the thread alive whatever happens: a silent sender would look like a dead node."""
        try:
            return self.send_one()
        except Exception as error:
            log.exception("Sending failed")
            self._pause(f"{type(error).__name__}: {error}")
            return True

    def send_one(self) -> bool:
        """Send one batch; says whether more should follow (at once, or after the back-off)."""
        flight = self.spool.flight(self._front)
        if flight is None:
            return False
        rows = flight.rows[: self._chunk]
        batch = Flight(flight.incarnation, rows)
        try:
            answer = self._connection.request("POST", INGEST, self._encode(batch), token=self._token.read())
        except UnreachableError as error:
            self._pause(str(error))
        else:
            self._handle(answer, batch)
        return True

    def _front(self) -> Sequence[Waiting]:
        now_ms = time.time_ns() // 1_000_000
        first = []
        if self._hello is not None:
            body = kinds.encode({"kind": "node.hello", "data": self._hello()}, now_ms)
            first.append(waiting("node.hello", body))
            self._hello = None
        with self._changed:
            beat, self._beat = self._beat, None
        if beat is not None:
            first.append(waiting("node.heartbeat", beat))
        return first

    def _encode(self, flight: Flight) -> bytes:
        agent = _encode({"node": self.node, "incarnation": flight.incarnation, "version": __version__})
        events = b",".join(b'{"seq":%d,%b' % (row.seq, row.body[1:]) for row in flight.rows)
        sent = time.time_ns() // 1_000_000
        return b'{"wire":%d,"agent":%b,"sent_at_ms":%d,"events":[%b]}' % (WIRE_VERSION, agent, sent, events)

    # ── answers ────────────────────────────────────────────────────────────

    def _handle(self, answer: Answer, flight: Flight) -> None:
        if answer.status == HTTPStatus.OK and isinstance(answer.body, dict):
            self._acknowledged(answer.body, flight)
        elif answer.status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE or _names_an_event(answer):
            self._split(answer, flight)
        elif answer.status in BLOCKED:
            self._blocked(answer, flight)
        else:
            self._pause(f"the control plane answered {answer.status}", answer.retry_after_s)

    def _acknowledged(self, body: Mapping[str, Any], flight: Flight) -> None:
        ack = body.get("ack")
        first, last = flight.rows[0].seq, flight.rows[-1].seq
        if not isinstance(ack, int):
            self._pause("the acknowledgement has no ack")
            return
        if ack < first - 1:
            ack = last  # a hole that we cannot fill any more; the 200 says that this batch is durable
        self._count_rejected(body.get("rejected"))
        self.spool.acknowledge(flight.incarnation, ack)
        if ack < first:
            self._pause("the control plane acknowledged nothing")
            return
        if self._backoff.failures or body.get("commands_waiting"):
            self._nudge()
        self._backoff.succeeded()
        self._chunk = min(MAX_CHUNK, self._chunk * 2)
        self._tell(None)
        self._pace(body.get("next_in_ms"))

    def _pace(self, next_in_ms: Any) -> None:
        if isinstance(next_in_ms, int | float):
            self._ordinary_s = min(max(next_in_ms / 1000.0, MIN_NEXT_IN_S), MAX_NEXT_IN_S)
        else:
            self._ordinary_s = self._flush_s

    def _count_rejected(self, rejected: Any) -> None:
        for item in rejected if isinstance(rejected, list) else ():
            self.rejected += 1
            log.warning("The control plane rejected an event: %.500r", item)

    def _split(self, answer: Answer, flight: Flight) -> None:
        """Halve what is sent at once; a single event that is refused is replaced by the news of it.

        Its number must arrive all the same, or the acknowledgement would stand still before the gap.
        """
        if len(flight.rows) > 1:
            self._chunk = len(flight.rows) // 2
            return
        row = flight.rows[0]
        self.rejected += 1
        text = f"An event {row.kind} of {len(row.body)} bytes was refused with {answer.status}: {answer.body!r:.300}"
        log.warning("%s", text)
        if row.kind == "node.log":
            self.spool.acknowledge(flight.incarnation, row.seq)
            self._pause(text)
            return
        news = {"kind": "node.log", "data": {"source": "agent", "text": text, "gap": True}}
        body = kinds.encode(news, time.time_ns() // 1_000_000)
        self.spool.replace(flight.incarnation, row.seq, waiting("node.log", body))

    def _blocked(self, answer: Answer, flight: Flight) -> None:
        if answer.status == HTTPStatus.CONFLICT and flight.incarnation != self.spool.incarnation:
            self.spool.renumber(flight.incarnation)
            return
        why = {
            HTTPStatus.UNAUTHORIZED: "the token is not valid (enrol this node again)",
            HTTPStatus.FORBIDDEN: "the token belongs to another node",
            HTTPStatus.CONFLICT: "another machine or a newer agent runs under this name",
        }[HTTPStatus(answer.status)]
        self._pause(f"{answer.status}: {why}", answer.retry_after_s or min(CONFLICT_WAIT_S, self._backoff.max_s))

    def _pause(self, why: str, retry_after_s: float = 0.0) -> None:
        self._not_before = time.monotonic() + self._backoff.failed(retry_after_s)
        self._tell(why)

    def _tell(self, trouble: str | None) -> None:
        if trouble != self.trouble:
            log.warning("Sending: %s", trouble or "all is well again")
        self.trouble = trouble


def _names_an_event(answer: Answer) -> bool:
    """Whether a 400 blames an event, and not the envelope or a proxy's mood."""
    blamed = answer.body.get("index") if isinstance(answer.body, dict) else None
    return answer.status == HTTPStatus.BAD_REQUEST and isinstance(blamed, int)
