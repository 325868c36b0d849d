"""The few facts of a process that tell it from a later one with the same pid."""

import os
from typing import NamedTuple

MAX_STAT = 1024
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class Process(NamedTuple):
    """`state` is the kernel's letter (R, S, D, T, Z …); pid and `start_ticks` together name one process."""

    pid: int
    state: str
    parent: int
    start_ticks: int
    cpu_s: float
    rss_bytes: int


def look(pid: int) -> Process | None:
    """Give the process with this pid, or None when there is none."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as source:  # noqa: PTH123 - hot path
            fields = source.read(MAX_STAT).rpartition(b")")[2].split()
        cpu_s = (int(fields[11]) + int(fields[12])) / TICKS_PER_S
        return Process(pid, fields[0].decode(), int(fields[1]), int(fields[19]), cpu_s, int(fields[21]) * PAGE_BYTES)
    except (OSError, ValueError, IndexError):
        return None
