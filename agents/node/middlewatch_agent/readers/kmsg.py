"""Follow the kernel's ring buffer through /dev/kmsg.

Each record has a number that counts from the boot, so a restarted agent goes on
behind the last one it told, a new boot starts at the first, and records that the
ring overwrote before we came are known to be missing.
"""

import errno
import os
import re
import time
from pathlib import Path

from middlewatch_agent.readers.base import Liveness, Outlet

MAX_RECORD = 8192
PER_TURN = 500
RECORD = re.compile(rb"(\d+),(\d+),(\d+),[^;]*;([^\n]*)")
KERNEL_FACILITY = 0
ESCAPED = re.compile(r"\\x([0-9a-f]{2})")


class KmsgReader:
    """A Reader over a descriptor that the loop waits for."""

    source = "kernel"

    def __init__(self, path: Path, outlet: Outlet, *, boot_id: str, cursor: str | None) -> None:
        """Open; `cursor` is `<boot id>:<number>` of the last record told. Raises OSError."""
        self._descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        self._outlet = outlet
        self._boot_id = boot_id
        self._last = _number(cursor, boot_id)
        self._liveness = Liveness()

    def fileno(self) -> int:
        """Descriptor to wait for."""
        return self._descriptor

    @property
    def cursor(self) -> str:
        """How far the log was read."""
        return f"{self._boot_id}:{self._last}"

    def read(self) -> None:
        """Take the records that are there, at most PER_TURN of them."""
        for _ in range(PER_TURN):
            try:
                record = os.read(self._descriptor, MAX_RECORD)
            except BlockingIOError:
                break
            except OSError as error:
                if error.errno == errno.EPIPE:  # the ring overtook us; the next read goes on at its oldest record
                    self._outlet.gap = True
                    continue
                self._liveness.looked(ok=False)
                return
            if not record:
                break
            self._take(record)
        self._liveness.looked()

    def _take(self, record: bytes) -> None:
        match = RECORD.match(record)
        if match is None:
            return
        priority, number, since_boot_us = int(match[1]), int(match[2]), int(match[3])
        if number <= self._last:
            return
        if number > self._last + 1:
            self._outlet.gap = True
        self._last = number
        if priority >> 3 == KERNEL_FACILITY:  # others are user space writing to the log: anyone could forge an Xid
            text = ESCAPED.sub(lambda code: chr(int(code[1], 16)), match[4].decode(errors="replace"))
            self._outlet.offer(text, _wall_ms(since_boot_us), self.cursor)

    def liveness(self) -> dict[str, object]:
        """Give `{ok, last_read_age_s}`."""
        return self._liveness.told()

    def close(self) -> None:
        """Close the device."""
        os.close(self._descriptor)


def _number(cursor: str | None, boot_id: str) -> int:
    boot, _, number = (cursor or "").rpartition(":")
    return int(number) if boot == boot_id and number.isdigit() else -1


def _wall_ms(since_boot_us: int) -> int:
    age_s = time.monotonic() - since_boot_us / 1e6
    return int((time.time() - max(0.0, age_s)) * 1000)
