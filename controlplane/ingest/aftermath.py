"""What follows a commit: hot state and wake-ups, both as well as can be, neither waited for.

The events are safe by now. If Redis is away, pages read PostgreSQL and workers
look within a second by themselves, so nothing here may delay or fail an answer.
"""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime

import msgspec
import redis.asyncio
from django.conf import settings
from middlewatch_wire import Decoded, Received
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from controlplane.events.log import Appended
from controlplane.fleet import hot
from controlplane.watch import wake

log = logging.getLogger(__name__)

URGENT = frozenset(
    {
        "attempt.exited", "attempt.started", "command.result", "node.hello", "rank.collective", "rank.exited",
        "rank.phase", "rank.resume", "rank.stack", "rank.started", "scheduler.job",
    }
)  # fmt: skip
"""Kinds that somebody may be waiting for; everything else is looked at once a second."""
FLUSH_S = 0.25
TIMEOUT_S = 1.0
MAX_REMEMBERED_ATTEMPTS = 10_000
MAX_HOT_RUNS = 10_000
"""Names of runs that Redis holds. Agents may make names up: beyond this all are dropped, and PostgreSQL is read."""

_Key = bytes | bytearray | memoryview | str | int | float
_Fields = dict[_Key, _Key]
_PROGRESS = b'"progress"'
_RAISED = b"Traceback (most recent call last)"
"""A rank that writes this is about to end, which a recovery waits for."""


class _Step(msgspec.Struct):
    step: int


_step = msgspec.json.Decoder(_Step).decode


def _wake(event: Received) -> None:
    if event.kind == "rank.phase" and _PROGRESS in event.data:
        return
    if event.run is None:
        wake.fleet()
    else:
        wake.run(event.run)


class Aftermath:
    """Gathers what changed and writes the hot state a few times a second."""

    def __init__(self) -> None:
        """Start with nothing to write."""
        self._nodes: _Fields = {}
        self._runs: _Fields = {}
        self._attempts: set[tuple[str, int | None]] = set()
        self._redis = redis.asyncio.Redis.from_url(
            settings.REDIS_URL, socket_timeout=TIMEOUT_S, socket_connect_timeout=TIMEOUT_S, retry=Retry(NoBackoff(), 0)
        )
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to write; the first hint opens the way to the broker before it is needed."""
        wake.fleet()
        self._task = asyncio.create_task(self._run(), name="ingest-hot-state")

    async def stop(self) -> None:
        """Stop writing."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        await self._redis.aclose()

    def committed(self, batches: Sequence[Decoded], results: Sequence[Appended], now: datetime) -> None:
        """Take note of a group that has just been committed; never blocks."""
        seen = hot.encode_seen(now)
        for batch, result in zip(batches, results, strict=True):
            if result.refused is None:
                self._nodes[batch.agent.node] = seen
            self._note(result.fresh, now)

    def _note(self, events: list[Received], now: datetime) -> None:
        last_step = None
        for event in events:
            if event.kind == "rank.step":
                last_step = event
            elif event.kind in URGENT or (event.kind == "rank.log" and _RAISED in event.data):
                _wake(event)
        if last_step is not None and last_step.run is not None:
            self._step(last_step, last_step.run, now)

    def _step(self, event: Received, run: str, now: datetime) -> None:
        """Keep a run's last step; the first of an attempt is what a recovery waits for."""
        self._runs[run] = hot.encode_step(event.attempt, _step(event.data).step, now)
        attempt = (run, event.attempt)
        if attempt not in self._attempts:
            if len(self._attempts) >= MAX_REMEMBERED_ATTEMPTS:
                self._attempts.clear()
            self._attempts.add(attempt)
            wake.run(run)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(FLUSH_S)
            if self._nodes or self._runs:
                await self._flush()

    async def _flush(self) -> None:
        nodes, self._nodes = self._nodes, {}
        runs, self._runs = self._runs, {}
        of_nodes, of_runs = hot.nodes_key(), hot.runs_key()
        try:
            async with self._redis.pipeline(transaction=False) as pipe:
                if nodes:
                    pipe.hset(of_nodes, mapping=nodes)
                if runs:
                    pipe.hset(of_runs, mapping=runs)
                pipe.hlen(of_runs)
                if (await pipe.execute())[-1] > MAX_HOT_RUNS:
                    await self._redis.delete(of_runs)
        except (RedisError, OSError, TimeoutError) as error:
            log.debug("hot state is away: %s", error)
            self._nodes, self._runs = nodes | self._nodes, runs | self._runs
