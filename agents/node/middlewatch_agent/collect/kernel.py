"""What the kernel says of a process, which it says of every process, also of a frozen one."""

import os
from dataclasses import dataclass
from pathlib import Path

from middlewatch_agent.collect.frames import Stack

WORDS = {
    "R": "running", "S": "sleeping", "D": "waiting in the kernel, not to be interrupted", "T": "stopped",
    "t": "stopped by a tracer", "Z": "dead, not yet reaped", "X": "dead", "I": "idle",
}  # fmt: skip
GONE = "X"
STOPPED = frozenset("Tt")
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
UTIME, STIME, START = 11, 12, 19
"""Places in `/proc/<pid>/stat`, counted behind the command's name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One look: `ticks` of CPU time used so far, `wchan` the kernel function it sleeps in."""

    state: str
    ticks: int = 0
    wchan: str = ""

    @property
    def exists(self) -> bool:
        """Whether there is a process that may answer."""
        return self.state not in {GONE, "Z"}

    @property
    def stopped(self) -> bool:
        """Whether it was stopped by a signal or a tracer."""
        return self.state in STOPPED


def sample(pid: int, start_ticks: int | None) -> Sample:
    """Look at a process; one that took the pid since counts as gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        if start_ticks is not None and int(fields[START]) != start_ticks:
            return Sample(state=GONE)
        ticks = int(fields[UTIME]) + int(fields[STIME])
        return Sample(state=fields[0].decode(), ticks=ticks, wchan=_wchan(pid))
    except (OSError, IndexError, ValueError):
        return Sample(state=GONE)


def describe(before: Sample, after: Sample, seconds: float) -> Stack:
    """Tell two looks as a `rank.stack` of the tool `proc`; its first line begins with the state's letter."""
    lines = [f"state {after.state} ({WORDS.get(after.state, 'unknown')})"]
    if after.wchan:
        lines.append(f"sleeps in {after.wchan}")
    if after.exists:
        used_ms = (after.ticks - before.ticks) * 1000 // TICKS_PER_S
        lines.append(f"used {used_ms} ms of CPU in {seconds * 1000:.0f} ms")
    return Stack(tool="proc", ok=True, frames=tuple(lines))


def _wchan(pid: int) -> str:
    try:
        found = Path(f"/proc/{pid}/wchan").read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""
    return "" if found == "0" else found
