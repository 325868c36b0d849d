"""Ingest's own way to PostgreSQL: asynchronous, few connections, quick to give up.

Django's connections belong to threads. Ingest serves a thousand agents from one
event loop, so it holds a small pool of its own; what is asked rarely still goes
through Django in a thread, so that rules stand in one place.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import django.db
import psycopg
from django.db import close_old_connections, connections
from psycopg import AsyncConnection
from psycopg.conninfo import make_conninfo
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from controlplane.domain.errors import Unavailable

T = TypeVar("T")

CONNECT_TIMEOUT_S = 3
ANSWER_TIMEOUT_S = 10.0
"""No statement of ingest may take longer; then nothing was made durable and the agent keeps its events."""
CHECKOUT_TIMEOUT_S = 2.0
POOL_SIZE = 3
AWAY = (psycopg.OperationalError, psycopg.InterfaceError, psycopg.InternalError, PoolTimeout, OSError, TimeoutError)
"""What it looks like when PostgreSQL is away, restarting, full or read-only."""


NOT_OURS = frozenset({"client_encoding", "prepare_threshold"})
"""Settings of Django's connections that are none of an address."""


def conninfo() -> str:
    """Return the address of Django's default database, as it is now (tests rename it)."""
    given = connections["default"].get_connection_params()
    plain = {key: value for key, value in given.items() if isinstance(value, str | int) and key not in NOT_OURS}
    plain |= {"connect_timeout": CONNECT_TIMEOUT_S, "application_name": "middlewatch-ingest"}
    plain["options"] = f"{plain.get('options', '')} -c statement_timeout={int(ANSWER_TIMEOUT_S * 1000)}".strip()
    return make_conninfo("", **plain)


def prepared_after() -> int | None:
    """Return how often a statement is asked before it is prepared, None for never: as the address says."""
    uses: int | None = connections["default"].get_connection_params()["prepare_threshold"]
    return uses


class Database:
    """A pool for the event loop and one thread for Django."""

    def __init__(self) -> None:
        """Prepare; nothing is connected yet."""
        self._pool: AsyncConnectionPool[AsyncConnection[Any]] = AsyncConnectionPool(
            conninfo(), kwargs={"prepare_threshold": prepared_after()}, min_size=1, max_size=POOL_SIZE, open=False,
            timeout=CHECKOUT_TIMEOUT_S, reconnect_timeout=5, max_idle=120, name="ingest",
        )  # fmt: skip
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="ingest-django")

    async def open(self) -> None:
        """Begin to connect in the background; PostgreSQL may come later."""
        await self._pool.open(wait=False)

    async def close(self) -> None:
        """Let go of every connection."""
        await self._pool.close()
        await asyncio.get_running_loop().run_in_executor(self._thread, connections.close_all)
        self._thread.shutdown(wait=False)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[AsyncConnection[Any]]:
        """A connection inside a transaction that commits at the end; raises what is in `AWAY`."""
        async with asyncio.timeout(ANSWER_TIMEOUT_S + CHECKOUT_TIMEOUT_S), self._pool.connection() as connection:
            yield connection

    async def rows(self, query: str, parameters: list[Any]) -> list[tuple[Any, ...]]:
        """Read; raises `Unavailable` when PostgreSQL is away."""
        try:
            async with self.transaction() as connection:
                cursor = await connection.execute(query, parameters)
                return await cursor.fetchall()
        except AWAY as error:
            raise Unavailable("the database cannot be reached") from error

    async def django(self, call: Callable[[], T]) -> T:
        """Call an action or a query of an app in the thread that owns Django's connection."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, _fresh, call)
        except (django.db.OperationalError, django.db.InterfaceError) as error:
            raise Unavailable("the database cannot be reached") from error


def _fresh(call: Callable[[], T]) -> T:
    close_old_connections()
    try:
        return call()
    finally:
        close_old_connections()
