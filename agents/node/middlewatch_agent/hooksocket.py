"""Take the datagrams of the training hooks.

Ranks are strangers to the agent: whatever they send is bounded, checked and
counted, and only the kinds that a rank may speak of are passed on. A rank
cannot forge another rank's death or a command's result.
"""

import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import msgspec
from middlewatch_wire.limits import MAX_AT_MS, MAX_INT4, MAX_NAME
from msgspec import Meta, Struct

from middlewatch_agent.files import PRIVATE_FILE

SOCKET_NAME = "agent.sock"
MAX_DATAGRAM = 64 << 10
RECEIVE_BUFFER_BYTES = 8 << 20
PER_TURN = 256
HOOK_KINDS = frozenset({
    "rank.step", "rank.window", "rank.phase", "rank.resume", "rank.log", "rank.collective", "checkpoint", "quorum",
})  # fmt: skip
_SO_RCVBUFFORCE = 33


class Datagram(Struct, kw_only=True):
    """What a hook sends."""

    kind: Annotated[str, Meta(max_length=64)]
    run: Annotated[str, Meta(min_length=1, max_length=MAX_NAME)]
    attempt: Annotated[int, Meta(ge=0, le=MAX_INT4)]
    rank: Annotated[int, Meta(ge=0, le=MAX_INT4)]
    at_ms: Annotated[int, Meta(ge=0, le=MAX_AT_MS)]
    data: dict[str, Any] = {}


_decode = msgspec.json.Decoder(Datagram).decode


class HookSocket:
    """`read` is called by the loop when datagrams wait; `emit` gets a bounded list of events."""

    def __init__(self, folder: Path, emit: Callable[[list[dict[str, Any]]], None]) -> None:
        """Bind `agent.sock`; raises OSError where that cannot be done (a path over 107 bytes, say)."""
        self.path = folder / SOCKET_NAME
        self.malformed = 0
        self.received = 0
        self._emit = emit
        self._buffer = bytearray(MAX_DATAGRAM + 1)
        self._socket = _bind(self.path)

    def fileno(self) -> int:
        """Descriptor to wait for."""
        return self._socket.fileno()

    def read(self) -> None:
        """Take what waits, but let the loop look at other things after PER_TURN datagrams."""
        events = []
        for _ in range(PER_TURN):
            try:
                size = self._socket.recv_into(self._buffer)
            except BlockingIOError:
                break
            event = self._parse(memoryview(self._buffer)[:size])
            if event is not None:
                events.append(event)
        if events:
            self._emit(events)

    def _parse(self, datagram: memoryview) -> dict[str, Any] | None:
        self.received += 1
        try:
            told = _decode(datagram)
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
            told = None
        if told is None or len(datagram) > MAX_DATAGRAM or told.kind not in HOOK_KINDS:
            self.malformed += 1
            return None
        return msgspec.structs.asdict(told)

    def close(self) -> None:
        """Close and remove the socket, so that hooks see at once that nobody listens."""
        self._socket.close()
        self.path.unlink(missing_ok=True)


def _bind(path: Path) -> socket.socket:
    path.unlink(missing_ok=True)  # ours by the lock on the state folder; a killed agent leaves it behind
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
    mask = os.umask(0o777 & ~PRIVATE_FILE)
    try:
        listener.bind(str(path))
    finally:
        os.umask(mask)
    _widen(listener)
    return listener


def _widen(listener: socket.socket) -> None:
    try:
        listener.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, RECEIVE_BUFFER_BYTES)
    except OSError:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
