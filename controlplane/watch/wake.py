"""Ask a worker to look now instead of at its next round.

A wake-up is a hint: whoever is not woken looks within a second anyway, so
losing one is cheap, and waiting for a broker is not. Hints are therefore
handed to a thread of their own, which sends each at most once per `WINDOW_S` and
never drops the last: a hint that comes too early is sent when the window ends.
Safe to call from an event loop, a task or a view; call it after the commit.
"""

import logging
import os
import threading
import time
from collections.abc import Callable
from functools import cache

from celery import Celery
from django.conf import settings
from django.db import DatabaseError, connection
from kombu.exceptions import KombuError, OperationalError

from controlplane.runs.models import Run

log = logging.getLogger(__name__)

WINDOW_S = 0.05
"""At most one wake-up of the same run or execution in this time."""
EXPIRES_S = 5.0
"""A hint that nobody took by then is worth nothing."""
MAX_WAITING = 10_000
LOOK_EVERY_S = 1.0
"""How often unknown names are looked up."""
COMPLAIN_EVERY_S = 30.0
IMPATIENT = {
    "max_retries": 1, "interval_start": 0, "interval_step": 0, "interval_max": 0,
    "socket_timeout": 1, "socket_connect_timeout": 1,
}  # fmt: skip
"""While the broker is away hints are dropped at once; waiting for it would delay those after it."""

Key = tuple[str, str]


def run(name: str) -> None:
    """Have the run of this name swept."""
    _ask("run", name)


def execution(execution_id: int) -> None:
    """Have an execution of a runbook advanced."""
    _ask("execution", str(execution_id))


def fleet() -> None:
    """Have the fleet swept."""
    _ask("fleet", "")


def rerun(rerun_id: int) -> None:
    """Have a replay begun that a person asked for."""
    _ask("rerun", str(rerun_id))


def _ask(what: str, which: str) -> None:
    if settings.CELERY_BROKER_URL:  # a replay has no workers to wake
        _hints().ask((what, which))


class Hints:
    """Hints on their way out, sent by a thread of their own."""

    def __init__(self, send: Callable[[Key], None], window_s: float = WINDOW_S) -> None:
        """Start the thread; `send` may block and may raise nothing."""
        self._send = send
        self._window_s = window_s
        self._due: dict[Key, float] = {}
        self._last: dict[Key, float] = {}
        self._changed = threading.Condition()
        threading.Thread(target=self._work, name="wake", daemon=True).start()

    def ask(self, key: Key) -> None:
        """Send `key` now, or at the end of its window when it was sent just before."""
        with self._changed:
            if key in self._due or len(self._due) >= MAX_WAITING:
                return
            now = time.monotonic()
            self._due[key] = max(now, self._last.get(key, 0.0) + self._window_s)
            self._changed.notify()

    def _work(self) -> None:
        while True:
            for key in self._take():
                self._send(key)

    def _take(self) -> list[Key]:
        """Wait until hints are due and take them out."""
        with self._changed:
            now = time.monotonic()
            while not (ready := [key for key, due in self._due.items() if due <= now]):
                self._changed.wait(min(self._due.values()) - now if self._due else None)
                now = time.monotonic()
            self._last = {key: at for key, at in self._last.items() if now - at < self._window_s}
            for key in ready:
                del self._due[key]
                self._last[key] = now
        return ready


class Sender:
    """Turns hints into Celery messages; what cannot be sent is dropped."""

    def __init__(self) -> None:
        """Make a Celery client that only publishes."""
        self._celery = Celery("middlewatch-wake", set_as_current=False)
        self._celery.config_from_object("django.conf:settings", namespace="CELERY")
        self._celery.conf.broker_transport_options = {**self._celery.conf.broker_transport_options, **IMPATIENT}
        self._run_ids: dict[str, int] = {}
        self._looked = float("-inf")
        self._complained = float("-inf")

    def __call__(self, key: Key) -> None:
        """Send one hint; an unknown run needs none."""
        try:
            message = self._message(*key)
            if message is not None:
                name, arguments = message
                self._celery.send_task(f"controlplane.{name}", args=arguments, expires=EXPIRES_S, retry=False)
        except (DatabaseError, KombuError, OperationalError, OSError) as error:
            self._complain(key, error)

    def _message(self, what: str, which: str) -> tuple[str, list[int]] | None:
        if what == "execution":
            return "watch.tasks.advance", [int(which)]
        if what == "rerun":
            return "replay.tasks.rerun", [int(which)]
        if what == "fleet":
            return "watch.tasks.sweep_fleet", []
        run_id = self._run_id(which)
        return None if run_id is None else ("watch.tasks.sweep_run", [run_id])

    def _run_id(self, name: str) -> int | None:
        """Look a name up among all runs, asked for at most once per `LOOK_EVERY_S` whatever agents send."""
        now = time.monotonic()
        if name not in self._run_ids and now - self._looked >= LOOK_EVERY_S:
            self._looked, self._run_ids = now, _all_runs()
        return self._run_ids.get(name)

    def _complain(self, key: Key, error: Exception) -> None:
        now = time.monotonic()
        if now - self._complained >= COMPLAIN_EVERY_S:
            self._complained = now
            log.warning("cannot wake a worker for %s %s: %s", *key, error)


def _all_runs() -> dict[str, int]:
    """Read through a connection that is not kept: this thread asks rarely."""
    try:
        return dict(Run.objects.values_list("name", "pk"))
    finally:
        connection.close()


def _hints() -> Hints:
    return _hints_of(os.getpid())


@cache
def _hints_of(_pid: int) -> Hints:
    """One thread per process; a fork starts its own."""
    return Hints(Sender())
