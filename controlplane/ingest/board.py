"""Which nodes have commands waiting, and which agents wait for one.

A thousand agents hang on their long polls. They share one connection that
listens: PostgreSQL tells of a new command in the moment it is committed, and a
look at the table once a second finds those whose lease ended, or whose telling
was lost. No broker is needed for a command to reach its agent.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import psycopg
from psycopg import AsyncConnection

from controlplane.fleet import commands, tokens
from controlplane.ingest.database import ANSWER_TIMEOUT_S, conninfo, prepared_after

log = logging.getLogger(__name__)

LOOK_EVERY_S = 1.0
RECONNECT_S = 1.0
COMPLAIN_EVERY = 30
_LISTEN = (f"LISTEN {commands.CHANNEL}", f"LISTEN {tokens.CHANNEL}")


class Board:
    """The waiting commands by node as this process knows them, kept up to date by a task."""

    def __init__(self, forget_node: Callable[[int], None], forget_all: Callable[[], None]) -> None:
        """`forget_node` is told the id of a node whose tokens changed; `forget_all`, that some may have unheard."""
        self._forget_node = forget_node
        self._forget_all = forget_all
        self._waiting: dict[str, int] = {}
        self._pollers: dict[str, set[asyncio.Event]] = {}
        self._task: asyncio.Task[None] | None = None
        self.listening = False

    def start(self) -> None:
        """Begin to listen."""
        self._task = asyncio.create_task(self._run(), name="ingest-board")

    async def stop(self) -> None:
        """Stop listening and let every poll end."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    def count(self, node: str) -> int:
        """How many commands wait for a node."""
        return self._waiting.get(node, 0)

    def polls(self, node: str) -> int:
        """How many polls of a node hang at this moment."""
        return len(self._pollers.get(node, ()))

    def take(self, node: str) -> bool:
        """Say whether something waits for a node; the caller goes and gets it."""
        return self._waiting.pop(node, 0) > 0

    async def wait(self, node: str, timeout_s: float) -> None:
        """Return when something may wait for a node, or when the time is up."""
        event = asyncio.Event()
        self._pollers.setdefault(node, set()).add(event)
        try:
            if not self.count(node):
                async with asyncio.timeout(timeout_s):
                    await event.wait()
        except TimeoutError:
            pass
        finally:
            self._leave(node, event)

    def _leave(self, node: str, event: asyncio.Event) -> None:
        pollers = self._pollers.get(node, set())
        pollers.discard(event)
        if not pollers:
            self._pollers.pop(node, None)

    def post(self, node: str) -> None:
        """Note that a command waits for a node and wake its agent."""
        self._waiting[node] = self._waiting.get(node, 0) + 1
        for event in self._pollers.get(node, ()):
            event.set()

    async def _run(self) -> None:
        failures = 0
        while True:
            try:
                await self._listen()
            except (psycopg.Error, OSError, TimeoutError) as error:
                self.listening = False
                if failures % COMPLAIN_EVERY == 0:
                    log.warning("cannot listen for commands: %s", error)
                failures += 1
            await asyncio.sleep(RECONNECT_S)

    async def _listen(self) -> None:
        link = await AsyncConnection.connect(conninfo(), autocommit=True, prepare_threshold=prepared_after())
        async with link as connection:
            for statement in _LISTEN:
                await connection.execute(statement)
            self._forget_all()
            self.listening = True
            while True:
                async with asyncio.timeout(ANSWER_TIMEOUT_S):
                    await self._look(connection)
                async for notice in connection.notifies(timeout=LOOK_EVERY_S):
                    self._hear(notice)

    def _hear(self, notice: psycopg.Notify) -> None:
        if notice.channel == commands.CHANNEL:
            self.post(notice.payload)
        elif notice.payload.isdigit():
            self._forget_node(int(notice.payload))

    async def _look(self, connection: AsyncConnection[Any]) -> None:
        cursor = await connection.execute(commands.WAITING)
        self._waiting = dict(await cursor.fetchall())
        for node in self._waiting.keys() & self._pollers.keys():
            for event in self._pollers[node]:
                event.set()
