"""Whether what a page shows can still be trusted to be fresh.

An open socket proves only that the web process lives. A ping is sent when the
database and Redis answer too, and it carries the age of the workers' last beat,
so a page says "stale" when automation stands still and not only when the
network does.
"""

import asyncio
import time
from dataclasses import dataclass

import redis
from channels.db import database_sync_to_async
from django.db import DatabaseError, connection

from controlplane.live import store

GOOD_FOR_S = 2.0


@dataclass(frozen=True, slots=True)
class Reading:
    """Age of the workers' last beat in seconds, None when there was none; `ok` when the servers answer."""

    ok: bool
    age_s: float | None = None


class Pulse:
    """One reading every `GOOD_FOR_S` per process, however many sockets ask."""

    def __init__(self) -> None:
        """Start without a reading."""
        self._reading = Reading(ok=False)
        self._taken = 0.0
        self._locks: dict[asyncio.AbstractEventLoop, asyncio.Lock] = {}

    async def read(self) -> Reading:
        """Return a reading that is at most `GOOD_FOR_S` old."""
        lock = self._locks.setdefault(asyncio.get_running_loop(), asyncio.Lock())
        async with lock:
            if time.monotonic() - self._taken > GOOD_FOR_S:
                self._reading = await database_sync_to_async(take)()
                self._taken = time.monotonic()
        return self._reading


def take() -> Reading:
    """Ask the database and Redis once."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
        beat = store.last_beat()
    except (DatabaseError, redis.RedisError, OSError):
        return Reading(ok=False)
    return Reading(ok=True, age_s=None if beat is None else max(0.0, time.time() - beat / 1000))


PULSE = Pulse()
