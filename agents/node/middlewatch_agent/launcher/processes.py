"""Find, end and account for the processes of an attempt, whatever became of their parents.

A rank may leave its session, lose its shim or fork helpers, and a pid may belong
to a stranger a moment later. The environment a process was started with is what
cannot be lost: the shim marks it. Signals go through a pidfd after the start time
was compared, so none reaches a stranger.
"""

import os
import select
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from middlewatch_agent import shim
from middlewatch_agent.ranks import procfs

PROC = Path("/proc")
MAX_ENVIRON_BYTES = 1 << 20
KILL_WAIT_S = 5.0
LOOK_S = 0.02
STOPPED = frozenset("Tt")
GONE = frozenset("ZX")


@dataclass(frozen=True, slots=True, kw_only=True)
class RankProcess:
    """One living process of a rank (a zombie is not living)."""

    pid: int
    start_ticks: int
    run: str
    attempt: int
    rank: int
    node: str
    state: str

    def describe(self) -> dict[str, object]:
        """What a person needs to go and look."""
        return {"rank": self.rank, "node": self.node, "pid": self.pid, "proc_state": self.state}


def alive(pid: int, start_ticks: int | None) -> bool:
    """Whether this very process still lives. A zombie does not: where init is lazy one may stay for ever."""
    found = procfs.look(pid)
    return found is not None and found.start_ticks == start_ticks and found.state not in GONE


def environ_of(pid: int) -> dict[bytes, bytes]:
    """The environment that a process was started with; empty for one that is gone or not ours."""
    try:
        with (PROC / str(pid) / "environ").open("rb") as file:
            pairs = file.read(MAX_ENVIRON_BYTES).split(b"\0")
    except OSError:
        return {}
    return {name: value for name, found, value in (pair.partition(b"=") for pair in pairs) if found}


def _rank_process(pid: int, sockets: frozenset[str]) -> RankProcess | None:
    environ = environ_of(pid)
    if shim.MARK.encode() not in environ or environ.get(b"MIDDLEWATCH_SOCKET", b"").decode() not in sockets:
        return None
    process = procfs.look(pid)
    if process is None or process.state in GONE:
        return None
    with suppress(KeyError, ValueError):
        return RankProcess(
            pid=pid,
            start_ticks=process.start_ticks,
            run=environ[b"MIDDLEWATCH_RUN"].decode(),
            attempt=int(environ[b"MIDDLEWATCH_ATTEMPT"]),
            rank=int(environ[b"RANK"]),
            node=environ[b"MIDDLEWATCH_NODE"].decode(),
            state=process.state,
        )
    return None


def of_run(run: str, sockets: frozenset[str], attempt: int | None = None) -> list[RankProcess]:
    """Every living process of a run's ranks on the nodes whose agents own `sockets`."""
    pids = (int(entry) for entry in os.listdir(PROC) if entry.isdigit())  # noqa: PTH208 (called in a tight loop)
    found = (_rank_process(pid, sockets) for pid in pids)
    return [one for one in found if one and one.run == run and attempt in (None, one.attempt)]


def signal_process(pid: int, start_ticks: int, number: signal.Signals) -> None:
    """Signal this very process and nobody who took its pid since."""
    with suppress(ProcessLookupError, PermissionError):
        descriptor = os.pidfd_open(pid)
        try:
            if alive(pid, start_ticks):
                signal.pidfd_send_signal(descriptor, number)
        finally:
            os.close(descriptor)


def _until_gone(look: Callable[[], list[RankProcess]], seconds: float) -> Iterator[list[RankProcess]]:
    deadline = time.monotonic() + seconds
    while left := look():
        yield left
        if time.monotonic() >= deadline:
            return
        select.select([], [], [], LOOK_S)


def end(look: Callable[[], list[RankProcess]], grace_s: float) -> list[RankProcess]:
    """Ask with SIGTERM, force with SIGKILL after `grace_s`, and return who lives on.

    `look` finds the processes anew each time, so one that was forked meanwhile is
    not missed. A stopped process cannot hear SIGTERM: when only such are left the
    grace is cut short. SIGKILL reaches them without a SIGCONT.
    """
    for process in look():
        signal_process(process.pid, process.start_ticks, signal.SIGTERM)
    for left in _until_gone(look, grace_s):
        if all(process.state in STOPPED for process in left):
            break
    for left in _until_gone(look, KILL_WAIT_S):
        for process in left:
            signal_process(process.pid, process.start_ticks, signal.SIGKILL)
    return look()
