"""Watch jobs that know nothing of Middlewatch: find their ranks by command line and environment.

Such a process is nobody's child here, so its exit code stays unknown; its start,
its end, its state and its log are seen all the same.
"""

import re
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from middlewatch_agent.config import WatchPattern
from middlewatch_agent.ranks import procfs
from middlewatch_agent.ranks.status import RankStatus

MAX_CMDLINE = 16 << 10
MAX_ENVIRON = 256 << 10
MAX_RANKS = 256
ANY = "*"


class PatternWatch:
    """Lives in the loop's thread; `scan` looks for new ranks, `found` tells each of them once."""

    def __init__(self, patterns: Iterable[WatchPattern], found: Callable[[RankStatus], None]) -> None:
        """Compile the patterns; raises re.error for a bad one."""
        self._patterns = [(pattern, re.compile(pattern.cmdline)) for pattern in patterns]
        self._found = found
        self._seen: dict[int, int] = {}

    def scan(self) -> None:
        """Look at every process that was not judged before."""
        present: dict[int, int] = {}
        for pid in (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()):
            process = procfs.look(pid)
            if process is None:
                continue
            present[pid] = process.start_ticks
            if self._seen.get(pid) != process.start_ticks:
                self._judge(process)
        self._seen = present

    def _judge(self, process: procfs.Process) -> None:
        cmdline = _read(process.pid, "cmdline", MAX_CMDLINE).replace("\0", " ").strip()
        for pattern, compiled in self._patterns:
            if cmdline and compiled.search(cmdline):
                status = _recognise(process, pattern)
                if status is not None:
                    self._found(status)
                return


def _recognise(process: procfs.Process, pattern: WatchPattern) -> RankStatus | None:
    environ = dict(pair.split("=", 1) for pair in _read(process.pid, "environ", MAX_ENVIRON).split("\0") if "=" in pair)
    if any(environ.get(key) is None or wanted not in (ANY, environ[key]) for key, wanted in pattern.env.items()):
        return None
    rank, local_rank = _number(environ.get(pattern.rank_env)), _number(environ.get(pattern.local_rank_env))
    log = pattern.log and pattern.log.format(rank=rank, local_rank=local_rank, pid=process.pid)
    return RankStatus(
        run=pattern.run, attempt=pattern.attempt, rank=rank, local_rank=local_rank, pid=process.pid,
        start_ticks=process.start_ticks, started_at_ms=time.time_ns() // 1_000_000, log=log,
    )  # fmt: skip


def _number(text: str | None) -> int:
    return int(text) if text and text.isdigit() else 0


def _read(pid: int, name: str, limit: int) -> str:
    try:
        with open(f"/proc/{pid}/{name}", "rb") as source:  # noqa: PTH123 - hot path
            return source.read(limit).decode(errors="replace")
    except OSError:
        return ""
