"""Learn at once that a file in a folder was replaced, without looking at it twenty times a second."""

import ctypes
import os
from pathlib import Path

IN_CLOSE_WRITE, IN_MOVED_TO, IN_DELETE, IN_Q_OVERFLOW = 0x8, 0x80, 0x200, 0x4000
_HEADER = 16
_BUFFER = 64 << 10


class FolderWatch:
    """Readable when something was written, renamed or deleted in the folder."""

    def __init__(self, folder: Path) -> None:
        """Start watching; raises OSError where the kernel has no room for one more watch."""
        libc = ctypes.CDLL(None, use_errno=True)
        self._descriptor: int = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._descriptor < 0:
            raise OSError(ctypes.get_errno(), "inotify_init1")
        mask = IN_CLOSE_WRITE | IN_MOVED_TO | IN_DELETE
        if libc.inotify_add_watch(self._descriptor, os.fsencode(folder), mask) < 0:
            os.close(self._descriptor)
            raise OSError(ctypes.get_errno(), f"inotify_add_watch {folder}")

    def fileno(self) -> int:
        """Descriptor to wait for."""
        return self._descriptor

    def names(self) -> set[str] | None:
        """Give the names that changed, or None when some were missed and the folder must be read again."""
        changed: set[str] = set()
        try:
            chunk = os.read(self._descriptor, _BUFFER)
        except BlockingIOError:
            return changed
        at = 0
        while at + _HEADER <= len(chunk):
            mask = int.from_bytes(chunk[at + 4 : at + 8], "little")
            length = int.from_bytes(chunk[at + 12 : at + 16], "little")
            if mask & IN_Q_OVERFLOW:
                return None
            changed.add(os.fsdecode(chunk[at + _HEADER : at + _HEADER + length].rstrip(b"\0")))
            at += _HEADER + length
        return changed

    def close(self) -> None:
        """Stop watching."""
        os.close(self._descriptor)
