"""Group lease: whatever polls were woken are served together.

When every node of a large attempt is asked for its stacks, hundreds of polls wake in
one instant. One statement and one commit hand out what waits for all that came while
the last was under way, so the last node is not served a flush to disk per node later.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from controlplane.events import queries as events
from controlplane.events.streams import Refusal
from controlplane.fleet import actions as fleet
from controlplane.fleet.models import Command
from controlplane.ingest.database import Database

MAX_GROUP = 256


@dataclass(frozen=True, slots=True)
class Handed:
    """What a poll gets: commands, or why it may have none."""

    commands: Sequence[Command] = ()
    refusal: Refusal | None = None


_Life = tuple[str, str]
_Waiting = tuple[_Life, "asyncio.Future[Handed]"]


class Leases:
    """The one way by which polls of a process get commands."""

    def __init__(self, database: Database) -> None:
        """Serve nobody yet."""
        self._database = database
        self._waiting: deque[_Waiting] = deque()
        self._task: asyncio.Task[None] | None = None

    async def take(self, node: str, incarnation: str) -> Handed:
        """Lease what waits for a node to this life of its agent; raises `Unavailable` when PostgreSQL is away."""
        future: asyncio.Future[Handed] = asyncio.get_running_loop().create_future()
        self._waiting.append(((node, incarnation), future))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(), name="ingest-leases")
        return await future

    async def _run(self) -> None:
        while self._waiting:
            group = [self._waiting.popleft() for _ in range(min(MAX_GROUP, len(self._waiting)))]
            group = [(life, future) for life, future in group if not future.done()]  # who left must get nothing
            try:
                handed = await self._database.django(partial(_lease, [life for life, _ in group]))
            except Exception as error:  # noqa: BLE001 - each poll that waits is told, whatever it was
                _fail(group, error)
            else:
                _answer(group, handed)


def _fail(group: Sequence[_Waiting], error: Exception) -> None:
    for _, future in group:
        if not future.done():
            future.set_exception(error)


def _answer(group: Sequence[_Waiting], handed: Sequence[Handed]) -> None:
    for (_, future), found in zip(group, handed, strict=True):
        if not future.done():
            future.set_result(found)


def _lease(lives: Sequence[_Life]) -> list[Handed]:
    """Give each life what it gets; of several that may have a node's commands the first gets all."""
    refused = events.refused(lives)
    may = {node for node, incarnation in lives if (node, incarnation) not in refused}
    found = fleet.lease_commands(may, datetime.now(UTC)) if may else {}
    return [
        Handed(refusal=refused[life]) if life in refused else Handed(commands=found.pop(life[0], ())) for life in lives
    ]
