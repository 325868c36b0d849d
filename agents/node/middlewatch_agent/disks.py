"""Free space, and how long a small synced write takes, measured where a stall hurts nobody.

A dying disk or a hung network mount answers nothing at all. The probe has a
thread of its own; while it hangs, the time it has been hanging is the reading.
"""

import os
import threading
import time
from pathlib import Path
from typing import Any

PROBE_FILE = ".middlewatch-probe"
PROBE_BYTES = b"m" * 4096


class Disk:
    """One folder to measure. `read` never waits for the disk longer than `patience_s`."""

    def __init__(self, path: str) -> None:
        """Remember the folder; nothing is touched yet."""
        self.path = path
        self._lock = threading.Lock()
        self._began: float | None = None
        self._space: dict[str, int] = {}
        self._took_ms: float | None = None
        self._error: str | None = None

    def read(self, patience_s: float = 0.5) -> dict[str, Any]:
        """Start a probe unless one hangs, wait a little for it, and give the `disks` entry."""
        with self._lock:
            hanging = self._began is not None
            if not hanging:
                self._began = time.monotonic()
        if not hanging:
            prober = threading.Thread(target=self._probe, name="disk-probe", daemon=True)
            prober.start()
            prober.join(patience_s)
        return self._told()

    def _told(self) -> dict[str, Any]:
        with self._lock:
            told: dict[str, Any] = {"path": self.path, **self._space}
            took_ms = self._took_ms if self._began is None else (time.monotonic() - self._began) * 1000.0
            if took_ms is not None:
                told["write_probe_ms"] = round(took_ms, 2)
            if self._error is not None:
                told["error"] = self._error
            return told

    def _probe(self) -> None:
        began = time.monotonic()
        space, error = dict[str, int](), None
        try:
            space = _space(self.path)
            _write(Path(self.path) / PROBE_FILE)
        except OSError as failure:
            error = str(failure)
        took_ms = (time.monotonic() - began) * 1000.0
        with self._lock:
            self._space, self._error = space or self._space, error
            self._took_ms = None if error else took_ms
            self._began = None


def _space(path: str) -> dict[str, int]:
    found = os.statvfs(path)
    space = {"free_bytes": found.f_bavail * found.f_frsize, "total_bytes": found.f_blocks * found.f_frsize}
    return space | ({"free_inodes": found.f_favail} if found.f_files else {})


def _write(path: Path) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, PROBE_BYTES)
        os.fdatasync(descriptor)
    finally:
        os.close(descriptor)
