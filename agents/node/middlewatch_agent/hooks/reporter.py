"""Hand observations to the node's agent without ever waiting for it.

Training must not notice whether an agent is there. Each observation is one
datagram on a non-blocking unix socket: a full or dead socket costs a failed
system call, and the observation is dropped and counted. The few that nobody can
do without (a checkpoint's end, a resume, a phase) wait in a short queue for the
next chance; steps do not, for the next step says all that the last one said.
"""

import math
import socket
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import msgspec

KEPT = frozenset({"checkpoint", "rank.resume", "rank.phase"})
MAX_KEPT = 64
MAX_DATAGRAM_BYTES = 16 << 10
RECONNECT_S = 1.0
CLOSE_S = 0.3

_encode = msgspec.json.Encoder().encode


class Reporter:
    """Sends `{"kind", "at_ms", "run", "attempt", "rank", "data"}` datagrams; never raises, never blocks.

    `sent` and `dropped` count observations.
    """

    def __init__(self, path: str, *, run: str, attempt: int, rank: int) -> None:
        """Send to the agent's socket at `path`, now or whenever it appears."""
        self._path = path
        self._frame = {"kind": "", "at_ms": 0, "run": run, "attempt": attempt, "rank": rank}
        self._socket: socket.socket | None = None
        self._retry_at = 0.0
        self._kept: deque[bytes] = deque(maxlen=MAX_KEPT)
        self.sent = 0
        self.dropped = 0

    def send(self, kind: str, data: Mapping[str, Any]) -> None:
        """Report one observation as of now. May be called from any thread."""
        try:
            datagram = self._datagram(kind, data)
        except Exception:  # noqa: BLE001 (a value that has no JSON form must not end the training)
            self.dropped += 1
            return
        if self._kept:
            self._send_kept()
        if self._sent(datagram):
            self.sent += 1
        elif kind in KEPT:
            self.dropped += len(self._kept) == MAX_KEPT
            self._kept.append(datagram)
        else:
            self.dropped += 1

    def close(self) -> None:
        """Try for a moment to get rid of what waits; whatever remains is dropped."""
        deadline = time.monotonic() + CLOSE_S
        while self._kept and time.monotonic() < deadline:
            self._send_kept()
            if self._kept:
                time.sleep(0.01)
        self.dropped += len(self._kept)
        self._kept.clear()

    def _datagram(self, kind: str, data: Mapping[str, Any]) -> bytes:
        event = {**self._frame, "kind": kind, "at_ms": time.time_ns() // 1_000_000, "data": data}
        datagram = _encode(event)
        if b"null" in datagram:  # the encoder's word for numbers that are not finite
            datagram = _encode(_plain(event))
        if len(datagram) > MAX_DATAGRAM_BYTES:
            raise ValueError(f"larger than {MAX_DATAGRAM_BYTES} bytes")
        return datagram

    def _send_kept(self) -> None:
        with suppress(IndexError):  # another thread may empty the queue meanwhile
            while self._sent(self._kept[0]):
                self._kept.popleft()
                self.sent += 1

    def _sent(self, datagram: bytes) -> bool:
        try:
            if self._socket is None and not self._connect():
                return False
            self._socket.send(datagram)  # type: ignore[union-attr]
        except BlockingIOError:
            return False
        except OSError:
            self._disconnect()
            return False
        return True

    def _connect(self) -> bool:
        now = time.monotonic()
        if now < self._retry_at:
            return False
        self._retry_at = now + RECONNECT_S
        fresh = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            fresh.setblocking(False)
            fresh.connect(self._path)
        except OSError:
            fresh.close()
            raise
        self._socket = fresh
        return True

    def _disconnect(self) -> None:
        stale, self._socket = self._socket, None
        if stale is not None:
            stale.close()


def _plain(value: Any) -> Any:
    """The same value with numbers that are not finite as the words of wire.md."""
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value
