"""Wait for commands with a long poll, in a thread and on a connection of its own."""

import logging
import threading
import time
from collections.abc import Callable
from http import HTTPStatus

import msgspec
from middlewatch_wire.commands import Command as WireCommand

from middlewatch_agent.backoff import Backoff
from middlewatch_agent.context import Command
from middlewatch_agent.transport import Connection, Token, UnreachableError

log = logging.getLogger(__name__)

PING = "/api/v1/ping"
SKEW_EVERY_S = 600.0
STEP_S = 1.0
"""A wall clock that moved so much against the one that only counts was set: what was measured before is void."""
MAX_COMMANDS = 100
CALM_S = 1.0
REST_S = 0.02


class Poller:
    """`run` is the thread; what arrives is given to `take`."""

    def __init__(
        self, connection: Connection, token: Token, *, incarnation: str, wait_s: float,
        take: Callable[[Command], None], backoff: Backoff,
    ) -> None:  # fmt: skip
        """Prepare; the connection must wait longer for an answer than `wait_s`."""
        self.skew_ms: int | None = None
        self._connection = connection
        self._token = token
        self._path = f"/api/v1/commands?wait_s={wait_s:g}&incarnation={incarnation}"
        self._take = take
        self._backoff = backoff
        self._ended = False
        self._nudged = threading.Event()
        self._skew_at = -SKEW_EVERY_S
        self._epoch = 0.0

    def run(self) -> None:
        """Poll until `stop`; a poll that is on its way is abandoned."""
        while not self._ended:
            self._nudged.clear()
            try:
                wait_s = self.poll()
            except UnreachableError:
                wait_s = self._backoff.failed()
            except Exception:
                log.exception("Polling for commands failed")
                wait_s = self._backoff.failed()
            if not self._ended:
                self._nudged.wait(wait_s)

    def nudge(self) -> None:
        """Poll now instead of waiting: the control plane answers again, or says that commands wait."""
        self._nudged.set()

    def stop(self) -> None:
        """Let `run` return before its next poll."""
        self._ended = True
        self._nudged.set()

    def poll(self) -> float:
        """Poll once and give the seconds to wait before the next time."""
        if time.monotonic() - self._skew_at >= SKEW_EVERY_S:
            self._measure()
        asked = time.monotonic()
        answer = self._connection.request("GET", self._path, token=self._token.read())
        if answer.status != HTTPStatus.OK or not isinstance(answer.body, dict):
            return self._backoff.failed(answer.retry_after_s)
        self._backoff.succeeded()
        items = answer.body.get("commands")
        given = items[:MAX_COMMANDS] if isinstance(items, list) else []
        if given and abs(_epoch() - self._epoch) >= STEP_S:
            self._measure()  # somebody set our clock while we waited: deadlines would be off by as much
        for item in given:
            self._offer(item)
        # A server that answers "nothing" at once must not make us spin; after commands
        # their own reports go first.
        return REST_S if given else max(0.0, CALM_S - (time.monotonic() - asked))

    def _measure(self) -> None:
        epoch = _epoch()
        self.skew_ms = measure_skew(self._connection)
        self._skew_at, self._epoch = time.monotonic(), epoch

    def _offer(self, item: object) -> None:
        try:
            told = msgspec.convert(item, WireCommand)
        except msgspec.ValidationError as error:
            log.warning("A command that cannot be read was ignored: %s", error)
            return
        command = Command(
            command_id=told.command_id, kind=told.kind, args=told.args, lease_s=float(told.lease_s),
            deadline_ms=told.deadline_ms - (self.skew_ms or 0) if told.deadline_ms else None,
        )  # fmt: skip
        self._take(command)


def _epoch() -> float:
    """When the clock that only counts began, by the wall clock: it moves only when somebody sets the latter."""
    return time.time() - time.monotonic()


def measure_skew(connection: Connection) -> int | None:
    """Give how many milliseconds the control plane's clock is ahead of ours, or None if it does not say."""
    before = time.time_ns()
    answer = connection.request("GET", PING)
    after = time.time_ns()
    now_ms = answer.body.get("now_ms") if isinstance(answer.body, dict) else None
    return now_ms - (before + after) // 2_000_000 if isinstance(now_ms, int) else None
