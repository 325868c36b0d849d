"""The few facts of a process that tell it from a later one with the same pid."""

from typing import NamedTuple

MAX_STAT = 1024


class Process(NamedTuple):
    """`state` is the kernel's letter (R, S, D, T, Z …); pid and `start_ticks` together name one process."""

    pid: int
    state: str
    parent: int
    start_ticks: int


def look(pid: int) -> Process | None:
    """Give the process with this pid, or None when there is none."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as source:  # noqa: PTH123 - hot path
            fields = source.read(MAX_STAT).rpartition(b")")[2].split()
        return Process(pid, fields[0].decode(), int(fields[1]), int(fields[19]))
    except (OSError, ValueError, IndexError):
        return None
