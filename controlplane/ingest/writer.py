"""Group commit: whatever batches wait are made durable together.

A commit costs a flush to disk however little it carries. One writer takes all
that has gathered while the last commit was under way, so the busier it is, the
less a batch costs, and every agent is answered only after its own is durable.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime

import psycopg
from middlewatch_wire import Decoded, Received, Rejected

from controlplane.domain.errors import Unavailable
from controlplane.events.log import Appended, append_async
from controlplane.ingest.database import AWAY, Database

log = logging.getLogger(__name__)

MAX_WAITING_BATCHES = 2048
MAX_WAITING_EVENTS = 100_000
"""More than this is not taken in: agents hold it safer than our memory does."""
MAX_GROUP_BATCHES = 256
MAX_GROUP_EVENTS = 20_000
GATHER_S = 0.002
"""How long the first batch of a group waits for company."""

_POISON = (psycopg.DataError, psycopg.IntegrityError, psycopg.NotSupportedError)

_Waiting = tuple[Decoded, "asyncio.Future[Appended]"]
Committed = Callable[[Sequence[Decoded], Sequence[Appended], datetime], None]


class Writer:
    """The one task of a process that appends to the event log."""

    def __init__(self, database: Database, committed: Committed) -> None:
        """`committed` is told every group after its commit; it must not block."""
        self._database = database
        self._committed = committed
        self._waiting: deque[_Waiting] = deque()
        self._events = 0
        self._arrived = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to write."""
        self._task = asyncio.create_task(self._run(), name="ingest-writer")

    async def stop(self) -> None:
        """Stop; what still waits is answered with `Unavailable` and comes again."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        self._fail(list(self._waiting), Unavailable("the control plane is stopping"))
        self._waiting.clear()

    @property
    def load(self) -> float:
        """How full the queue is, 0 to 1."""
        return max(len(self._waiting) / MAX_WAITING_BATCHES, self._events / MAX_WAITING_EVENTS)

    async def submit(self, batch: Decoded) -> Appended:
        """Wait until the batch is durable; `Unavailable` when it cannot be.

        Events that PostgreSQL will never store are added to the batch's rejected ones.
        """
        if self.load >= 1.0:
            raise Unavailable("too many batches are waiting")
        future: asyncio.Future[Appended] = asyncio.get_running_loop().create_future()
        self._waiting.append((batch, future))
        self._events += len(batch.events)
        self._arrived.set()
        return await future

    async def _run(self) -> None:
        while True:
            await self._arrived.wait()
            await asyncio.sleep(GATHER_S)
            group = self._take()
            try:
                await self._write(group)
            except asyncio.CancelledError:
                self._fail(group, Unavailable("the control plane is stopping"))
                raise
            except Exception as error:
                log.exception("could not write a group of %d batches", len(group))
                self._fail(group, Unavailable(f"the events could not be written: {error}"))

    def _take(self) -> list[_Waiting]:
        group: list[_Waiting] = []
        events = 0
        while self._waiting and len(group) < MAX_GROUP_BATCHES and events < MAX_GROUP_EVENTS:
            group.append(self._waiting.popleft())
            events += len(group[-1][0].events)
        self._events -= events
        if not self._waiting:
            self._arrived.clear()
        return group

    async def _write(self, group: list[_Waiting]) -> None:
        batches = [batch for batch, _ in group]
        try:
            results, now = await self._append_twice(batches)
        except AWAY as error:
            log.warning("cannot write events: %s", error)
            self._fail(group, Unavailable("nothing can be made durable at the moment"))
        except _POISON as error:
            await self._isolate(group, error)
        else:
            self._committed(batches, results, now)
            for (_, future), result in zip(group, results, strict=True):
                _answer(future, result)

    async def _append_twice(self, batches: list[Decoded]) -> tuple[list[Appended], datetime]:
        """Append; once more on a fresh connection when the one in the pool had died meanwhile."""
        try:
            return await self._append(batches)
        except (psycopg.OperationalError, psycopg.InterfaceError) as error:
            log.info("trying again on a fresh connection: %s", error)
            return await self._append(batches)

    async def _append(self, batches: list[Decoded]) -> tuple[list[Appended], datetime]:
        async with self._database.transaction() as connection, connection.cursor() as cursor:
            now = datetime.now(UTC)
            return await append_async(cursor, batches, now), now

    async def _isolate(self, group: list[_Waiting], error: Exception) -> None:
        """One batch that PostgreSQL will not store must not fail its companions."""
        if len(group) > 1:
            for single in group:
                await self._write([single])
            return
        (batch, future) = group[0]
        log.warning("a batch of %s cannot be stored as it is: %s", batch.agent.node, error)
        try:
            result = await self._salvage(batch)
        except AWAY:
            self._fail(group, Unavailable("nothing can be made durable at the moment"))
        else:
            _answer(future, result)

    async def _salvage(self, batch: Decoded) -> Appended:
        """Store a batch event by event; what cannot be stored counts as received and is rejected."""
        total = Appended(0)
        for index, event in _numbered(batch):
            try:
                result = await self._commit(_part(batch, [event], []))
            except _POISON as error:
                rejected = Rejected(event.seq, index, "data", f"cannot be stored: {type(error).__name__}")
                batch.rejected.append(rejected)
                result = await self._commit(_part(batch, [], [rejected]))
            total = Appended(result.ack, total.fresh + result.fresh, result.refused)
        return total

    async def _commit(self, batch: Decoded) -> Appended:
        (result,), now = await self._append_twice([batch])
        self._committed([batch], [result], now)
        return result

    @staticmethod
    def _fail(group: list[_Waiting], error: Exception) -> None:
        for _, future in group:
            if not future.done():
                future.set_exception(error)


def _answer(future: "asyncio.Future[Appended]", result: Appended) -> None:
    if not future.done():
        future.set_result(result)


def _part(batch: Decoded, events: list[Received], rejected: list[Rejected]) -> Decoded:
    return Decoded(agent=batch.agent, sent_at_ms=batch.sent_at_ms, events=events, rejected=rejected)


def _numbered(batch: Decoded) -> list[tuple[int, Received]]:
    """Return the events with the places that they had in what was sent."""
    gone = {rejected.index for rejected in batch.rejected}
    places = (index for index in range(len(batch.events) + len(gone)) if index not in gone)
    return list(zip(places, batch.events, strict=True))
