"""Send in threads of their own: a task never waits, and a receiver that stalls must not hold up a recovery.

What is handed over here is only a hint. The truth is the outbox: a process that dies
leaves claims that run out, and another takes them up.
"""

import logging
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache

from django.db import close_old_connections, connection

log = logging.getLogger(__name__)

THREADS = 4


class Sender:
    """A few threads, and what they are at."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="notify")
        self._lock = threading.Lock()
        self._at: set[str] = set()

    @property
    def free(self) -> int:
        """How many threads have nothing to do."""
        return max(0, THREADS - len(self._at))

    def hand_over(self, name: str, work: Callable[[], object]) -> None:
        """Do `work` in a thread, unless this process is at it already."""
        with self._lock:
            if name in self._at:
                return
            self._at.add(name)
        self._pool.submit(self._do, name, work)

    def _do(self, name: str, work: Callable[[], object]) -> None:
        close_old_connections()
        try:
            work()
        except Exception:
            log.exception("%s was not sent; it is tried again", name)
        finally:
            connection.close()
            with self._lock:
                self._at.discard(name)


def sender() -> Sender:
    """Return this process's sender."""
    return _sender_of(os.getpid())


@cache
def _sender_of(_pid: int) -> Sender:
    """One per process; a fork starts its own."""
    return Sender()
