"""The agent's one loop: readable descriptors and timers, and nothing that can block.

Waking only when something happened is what keeps the agent under a fifth of a
percent of a core.
"""

import heapq
import itertools
import logging
import os
import selectors
import time
from collections.abc import Callable

log = logging.getLogger(__name__)
Call = Callable[[], None]


class Loop:
    """`run` owns the thread; `stop` and `soon` may be called from any thread or signal handler."""

    def __init__(self) -> None:
        """Make the selector and the pipe that wakes it."""
        self._selector = selectors.DefaultSelector()
        self._timers: list[tuple[float, int, Call]] = []
        self._order = itertools.count()
        self._soon: list[Call] = []
        self._stopped = False
        self._wake_out, self._wake_in = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self.watch(self._wake_out, self._drain)
        self.lag_s = 0.0

    def watch(self, descriptor: int, call: Call) -> None:
        """Call whenever the descriptor is readable."""
        self._selector.register(descriptor, selectors.EVENT_READ, call)

    def unwatch(self, descriptor: int) -> None:
        """Forget a descriptor (before it is closed)."""
        self._selector.unregister(descriptor)

    def later(self, delay_s: float, call: Call) -> None:
        """Call once after a delay."""
        heapq.heappush(self._timers, (time.monotonic() + delay_s, next(self._order), call))

    def every(self, seconds: float, call: Call, *, first_s: float | None = None) -> None:
        """Call at an interval; a late call does not make the next ones early."""

        def again() -> None:
            self.later(seconds, again)
            call()

        self.later(seconds if first_s is None else first_s, again)

    def soon(self, call: Call) -> None:
        """Call in the loop's thread as soon as possible."""
        self._soon.append(call)
        self._wake()

    def stop(self) -> None:
        """Let `run` return."""
        self._stopped = True
        self._wake()

    def run(self) -> None:
        """Work until `stop`."""
        while not self._stopped:
            self.turn()

    def turn(self, at_most_s: float | None = None) -> None:
        """Wait for the next thing, at most so long, and do it."""
        timeout = max(0.0, self._timers[0][0] - time.monotonic()) if self._timers else None
        if at_most_s is not None:
            timeout = at_most_s if timeout is None else min(timeout, at_most_s)
        for key, _ in self._selector.select(timeout):
            _safely(key.data)
        while self._soon:
            _safely(self._soon.pop(0))
        self._run_timers()

    def _run_timers(self) -> None:
        now = time.monotonic()
        while self._timers and self._timers[0][0] <= now:
            due, _, call = heapq.heappop(self._timers)
            self.lag_s = now - due
            _safely(call)

    def _wake(self) -> None:
        try:
            os.write(self._wake_in, b"!")
        except OSError:
            return  # full of wake-ups already, or closed: a second signal while the agent ends

    def _drain(self) -> None:
        os.read(self._wake_out, 4096)

    def close(self) -> None:
        """Close the selector and the pipe."""
        self._selector.close()
        os.close(self._wake_out)
        os.close(self._wake_in)


def _safely(call: Call) -> None:
    """One broken reader must not take the others down with it."""
    try:
        call()
    except Exception:
        log.exception("A call of the loop failed")
