"""Remember on disk what was started, so that a restarted launcher takes up its attempts again.

One file per run holds its newest attempt. It is written before the first process
is started: whatever happens then, the attempt is known, and it is never started
a second time.
"""

import os
from contextlib import suppress
from pathlib import Path
from typing import Literal

import msgspec


class RankRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Where one rank was put."""

    rank: int
    local_rank: int
    node: str
    status: str
    """Path of the status file that its shim keeps."""


class AttemptRecord(msgspec.Struct, kw_only=True):
    """One attempt. `stop_asked` makes its end a kill rather than a failure."""

    run: str
    attempt: int
    nodes: list[str]
    resume_step: int
    resume_path: str | None
    skip: tuple[int, int] | None = None
    supports: list[str] = []
    master_port: int
    master_addr: str = "127.0.0.1"
    started_at_ms: int
    ranks: list[RankRecord]
    state: Literal["starting", "running", "ended"] = "starting"
    stop_asked: bool = False
    started_told: bool = False
    exited_told: bool = False
    why: str = ""
    job: str = ""
    """The scheduler's own name of it, where it has one."""
    exclude: list[str] = []
    successor: bool = False
    """It waited in the queue and began by itself."""

    @property
    def job_id(self) -> str:
        """Name of the attempt at the scheduler."""
        return self.job or f"{self.run}.{self.attempt}"

    @property
    def world_size(self) -> int:
        """Number of ranks."""
        return len(self.ranks)


class Records:
    """The folder of attempt files, each read once. Not locked: its one user holds a lock."""

    def __init__(self, folder: Path) -> None:
        """Use `folder`, made when missing."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder = folder
        self._known: dict[str, AttemptRecord | None] = {}

    def newest(self, run: str) -> AttemptRecord | None:
        """The newest attempt of a run, or None."""
        if run not in self._known:
            path = self._folder / f"{run}.json"
            self._known[run] = msgspec.json.decode(path.read_bytes(), type=AttemptRecord) if path.exists() else None
        return self._known[run]

    def save(self, record: AttemptRecord) -> None:
        """Write a record through to the disk at once."""
        path = self._folder / f"{record.run}.json"
        scratch = path.with_name(f".{path.name}")
        with scratch.open("wb") as file:
            file.write(msgspec.json.encode(record))
            file.flush()
            os.fsync(file.fileno())
        scratch.replace(path)
        self._known[record.run] = record

    def note(self, record: AttemptRecord) -> None:
        """Save news of an attempt that is known: where the disk is full it is remembered, and nobody waits for it."""
        self._known[record.run] = record
        with suppress(OSError):
            self.save(record)
