"""End a conversation in time: a peer that sends one byte every few seconds would hold a sender for hours."""

import socket
import threading
from contextlib import suppress
from types import TracebackType
from typing import Self


class CutOff:
    """Shuts a connection down when the block has not ended in time, and then raises `TimeoutError` at its end.

    Without that an answer that was cut in the middle would pass for a short one.
    """

    def __init__(self, seconds: float, connection: socket.socket) -> None:
        self._connection = connection
        self._late = False
        self._timer = threading.Timer(seconds, self._shut)
        self._timer.daemon = True

    def __enter__(self) -> Self:
        """Start the clock."""
        self._timer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the clock."""
        self._timer.cancel()
        if self._late:
            raise TimeoutError("the other side took too long") from error

    def _shut(self) -> None:
        self._late = True
        with suppress(OSError):
            socket.socket.shutdown(self._connection, socket.SHUT_RDWR)
