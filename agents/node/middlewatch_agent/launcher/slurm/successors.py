"""Keep jobs queued behind a run's job, and let one that begins become the run's next attempt.

A successor is submitted with a dependency on the job before it, so it keeps its place in
the queue, and waits inside its script for an order: only the launcher knows which
attempt it is and where it starts from. What is wanted is written down; what exists is
asked of Slurm, so a lost answer or a restart costs at most one job too many, which goes.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from middlewatch_agent.files import private_folder, write_private
from middlewatch_agent.launcher.records import AttemptRecord
from middlewatch_agent.launcher.slurm.tools import Tools
from middlewatch_agent.launcher.slurm.view import PENDING, Job

AT_ONCE = frozenset({"timeout", "preempted"})
"""Ends after which nobody needs to judge anything: the successor goes on."""
NEVER = frozenset({"completed", "killed"})
"""Ends after which a successor has nothing to do: finished is finished, and whoever stopped a run meant it."""


class Wish(msgspec.Struct, kw_only=True):
    """What is wanted for a run."""

    count: int = 0
    exclude: list[str] = []
    held: bool = False
    """Somebody wants the waiting jobs held."""
    paused: bool = False
    """They are held because the attempt was ended on purpose; the next one that is started lets them go."""
    holds: list[str] = []
    """The jobs that were held here, for either reason; a person holds others, and only that person lets them go."""


class Wishes:
    """The wishes of all runs, one small file each."""

    def __init__(self, folder: Path) -> None:
        """Keep them in `folder`."""
        self._folder = private_folder(folder)

    def of(self, run: str) -> Wish:
        """What is wanted for a run."""
        path = self._folder / f"{run}.json"
        return msgspec.json.decode(path.read_bytes(), type=Wish) if path.exists() else Wish()

    def save(self, run: str, wish: Wish) -> None:
        """Remember it."""
        write_private(self._folder / f"{run}.json", msgspec.json.encode(wish).decode())


def waiting(jobs: Mapping[str, Job], mark: str) -> list[Job]:
    """The successors that wait, in the order of their submission."""
    found = [job for job in jobs.values() if job.comment == mark and job.state == PENDING]
    return sorted(found, key=lambda job: int(job.job_id))


def begun(jobs: Mapping[str, Job], mark: str, orders: Path) -> list[Job]:
    """The successors that hold nodes and have no order yet."""
    found = [job for job in jobs.values() if job.comment == mark and job.active and job.state != PENDING]
    return [job for job in found if not os.path.exists(orders / f"{job.job_id}.json")]  # noqa: PTH110


def may_begin(before: AttemptRecord, wish: Wish, reason: str, waited_s: float, order_s: float) -> bool | None:
    """Whether a successor goes on after an attempt that ended so; None: not now.

    After a fault whoever watches restarts the run on nodes of his choice, and this
    successor makes way. Only where the owner has set `order_s` does the run go on without
    a word: nobody may have approved it, and an operator may have put the run on hold.
    """
    if before.stop_asked or reason in NEVER:
        return False
    if wish.held:
        return None
    return True if reason in AT_ONCE or 0 < order_s <= waited_s else None


def is_astray(job: Job, record: AttemptRecord, wish: Wish) -> bool:
    """Whether a waiting job does not follow the attempt, or could be put on a node that is excluded."""
    return record.job not in job.follows or set(job.excluded) != set(wish.exclude)


def rechain(tools: Tools, jobs: Sequence[Job], record: AttemptRecord, exclude: Sequence[str]) -> None:
    """Let waiting jobs follow an attempt one after the other, and keep them off nodes; numbers and age stay.

    Each depends on the attempt as well as on the one ahead: were that cancelled, the
    next would otherwise begin beside the living attempt.
    """
    ahead = [record.job]
    for job in jobs:
        tools.update_job(job.job_id, dependency=f"afterany:{':'.join(ahead)}", excnodelist=",".join(exclude))
        ahead = [record.job, job.job_id]
