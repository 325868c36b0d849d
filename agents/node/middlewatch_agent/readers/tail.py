"""Follow a growing file by looking at its size now and then; survives rotation and truncation."""

import os
import stat
import time
from pathlib import Path

from middlewatch_agent.readers.base import Liveness, Outlet

CHUNK = 64 << 10
MAX_PARTIAL = 64 << 10
TAIL_BYTES = 4096


class TailReader:
    """A Reader without a descriptor: the loop calls `read` at an interval.

    A stored cursor `<inode>:<offset>` is taken up again; without one a file is
    read from its end (`from_start`: from its beginning).
    """

    def __init__(
        self, source: str, path: Path, outlet: Outlet, *, cursor: str | None = None, from_start: bool = False
    ) -> None:
        """Remember the file; it may not exist yet."""
        self.source = source
        self.path = path
        self._outlet = outlet
        self._inode, self._offset = _place(cursor)
        self._skip_to_end = cursor is None and not from_start
        self._partial = b""
        self._liveness = Liveness()

    def fileno(self) -> int:
        """There is nothing to wait for."""
        return -1

    def read(self) -> None:
        """Take the lines that were added, at most CHUNK bytes of them."""
        try:
            descriptor = _open(self.path)
        except FileNotFoundError:
            self._skip_to_end = False
            self._liveness.looked()
            return
        except OSError:
            self._liveness.looked(ok=False)
            return
        try:
            self._read(descriptor)
        finally:
            os.close(descriptor)

    def _read(self, descriptor: int) -> None:
        found = os.fstat(descriptor)
        self._adjust(found)
        chunk = os.pread(descriptor, CHUNK, self._offset) if found.st_size > self._offset else b""
        self._liveness.looked()
        if not chunk:
            return
        self._offset += len(chunk)
        *lines, self._partial = (self._partial + chunk).split(b"\n")
        if len(self._partial) > MAX_PARTIAL:
            self._partial, self._outlet.gap = b"", True
        for line in lines:
            self._outlet.offer(line.decode(errors="replace"), time.time_ns() // 1_000_000, self.cursor)

    def _adjust(self, found: os.stat_result) -> None:
        if self._skip_to_end:
            self._inode, self._offset, self._skip_to_end = found.st_ino, found.st_size, False
        elif found.st_ino != self._inode or found.st_size < self._offset:
            self._inode, self._offset, self._partial = found.st_ino, 0, b""

    @property
    def cursor(self) -> str:
        """Where to go on after a restart: behind the last whole line."""
        return f"{self._inode}:{self._offset - len(self._partial)}"

    def liveness(self) -> dict[str, object]:
        """Give `{ok, last_read_age_s}`."""
        return self._liveness.told()

    def close(self) -> None:
        """Nothing stays open."""


def tail(path: Path, limit: int = TAIL_BYTES) -> str:
    """Give the last bytes of a regular file as text, "" where there are none."""
    try:
        descriptor = _open(path)
    except OSError:
        return ""
    try:
        size = os.fstat(descriptor).st_size
        return os.pread(descriptor, limit, max(0, size - limit)).decode(errors="replace")
    finally:
        os.close(descriptor)


def _open(path: Path) -> int:
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(f"{path} is not a regular file")
    return descriptor


def _place(cursor: str | None) -> tuple[int, int]:
    inode, _, offset = (cursor or "").partition(":")
    return (int(inode), int(offset)) if inode.isdigit() and offset.isdigit() else (0, 0)
