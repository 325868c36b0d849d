"""Tell how a rank ended by the status file that its shim has left.

Apart from `records`, which ranks of a batch job import on their way: they would pay for what this needs.
"""

from pathlib import Path

import msgspec

from middlewatch_agent import shim
from middlewatch_agent.launcher import processes
from middlewatch_agent.launcher.records import RankRecord
from middlewatch_agent.ranks import status
from middlewatch_agent.ranks.status import RankStatus


class RankEnd(msgspec.Struct, frozen=True, kw_only=True):
    """How a rank ended; all None where its shim was killed too and nobody can know."""

    exit_code: int | None = None
    signal: int | None = None
    exited_at_ms: int | None = None


def _read_status(path: str) -> RankStatus | None:
    try:
        return status.read(Path(path))
    except ValueError:
        return None


def _shim_lives(pid: int | None, path: str) -> bool:
    return pid is not None and processes.environ_of(pid).get(shim.STATUS.encode()) == path.encode()


def rank_end(record: RankRecord, *, young: bool) -> RankEnd | None:
    """How a rank ended, or None while it (or its shim, about to tell) still lives.

    `young` says that the start is so recent that a missing status file means nothing.
    """
    told = _read_status(record.status)
    if told is None:
        return None if young else RankEnd()
    if not told.ended:
        if processes.alive(told.pid, told.start_ticks) or _shim_lives(told.shim_pid, record.status):
            return None
        told = _read_status(record.status) or told
    return RankEnd(exit_code=told.exit_code, signal=told.signal, exited_at_ms=told.exited_at_ms)


def was_claimed(record: RankRecord) -> bool:
    """Whether a shim ever took this rank."""
    return shim.claimed(record.status)


def has_status(record: RankRecord) -> bool:
    """Whether the rank was started: its shim has written the first status."""
    return Path(record.status).exists()
