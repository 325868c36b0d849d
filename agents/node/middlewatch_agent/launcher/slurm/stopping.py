"""End a job and prove it: ask, force, and fence the nodes that cannot tell.

A job whose node is dead stays in COMPLETING until Slurm gives the node up, minutes
later; and a node whose daemon alone died keeps its ranks as ghosts that Slurm no longer
sees. So after the last signal the nodes that have not told the end of their processes are
drained and set down with our mark: nothing is placed there, and the attempt can be
started elsewhere.

The steps of a job tell their end along a tree, so healthy nodes below a dead one are
silent too. Hence a limit on how many are fenced, those first of which Slurm knows that
they do not answer; and a fenced node whose processes we can see to be gone is given
back, where Slurm itself uses it only once it answers.
"""

import time
from collections.abc import Callable, Collection, Iterable, Sequence

from middlewatch_agent.launcher.slurm.nodes import fence
from middlewatch_agent.launcher.slurm.tools import ToolError, Tools, UnknownError
from middlewatch_agent.launcher.slurm.view import COMPLETING, PENDING, Job

Test = Callable[[Job], bool]
"""Tells whether a job is one of those to end."""
LOOK_S = 0.15
GONE = ("invalid job id", "already completing", "already completed", "completing")
"""What Slurm says of a job that needs no signal any more."""


class Stopper:
    """Ends jobs. Raises UnknownError where the controller does not answer."""

    def __init__(self, tools: Tools, fence_s: float, fence_most: int) -> None:
        """Fence a node that has not told the end of its processes `fence_s` after SIGKILL, and not too many."""
        self._tools = tools
        self._fence_s = fence_s
        self._fence_most = fence_most

    def end(self, seen: Iterable[Job], is_of: Test, grace_s: float, why: str) -> list[str]:
        """End every job of an attempt among those `seen` now, whoever submitted it; give the nodes that were fenced."""
        living = _living(seen, is_of)
        if living and all(job.state == COMPLETING for job in living):  # somebody else ends it, by Slurm's own times
            living = self._until_ended(is_of, self._tools.kill_wait_s())
        elif living and grace_s > 0:
            self._ask(living)
            living = self._until_ended(is_of, grace_s)
        if not living:
            return []
        self._force(living)
        left = self._until_ended(is_of, self._fence_s)
        return self._fence(left, is_of, why) if left else []

    def _until_ended(self, is_of: Test, seconds: float) -> list[Job]:
        deadline = time.monotonic() + seconds
        while (left := _living(self._tools.jobs(), is_of)) and time.monotonic() < deadline:
            time.sleep(LOOK_S)
        return left

    def _ask(self, jobs: Sequence[Job]) -> None:
        for job in jobs:
            if job.state == PENDING:
                _unless_gone(self._tools.cancel, job.job_id)
            elif job.state != COMPLETING:
                _unless_gone(lambda job_id: self._tools.signal(job_id, "TERM"), job.job_id)

    def _force(self, jobs: Sequence[Job]) -> None:
        for job in jobs:
            if job.state != PENDING:
                _unless_gone(lambda job_id: self._tools.signal(job_id, "KILL", batch=True), job.job_id)
            _unless_gone(self._tools.cancel, job.job_id)

    def _fence(self, left: Sequence[Job], is_of: Test, why: str) -> list[str]:
        names = {node for job in left for node in job.nodes}
        silent = {node.name for node in self._tools.nodes() if node.name in names and not node.answers}
        fenced = self._fence_all(silent, why)
        if silent:
            left = self._until_ended(is_of, self._fence_s)
            names = {node for job in left for node in job.nodes}
        if len(names) > self._fence_most:
            raise UnknownError(f"{len(names)} nodes have not told the end of their processes, among them {min(names)}")
        return fenced + self._fence_all(names - silent, why)

    def _fence_all(self, names: Collection[str], why: str) -> list[str]:
        for name in sorted(names):
            fence(self._tools, name, why)
        return sorted(names)


def _living(jobs: Iterable[Job], is_of: Test) -> list[Job]:
    return [job for job in jobs if job.active and is_of(job)]


def _unless_gone(act: Callable[[str], None], job_id: str) -> None:
    try:
        act(job_id)
    except ToolError as error:
        if not any(sign in str(error).lower() for sign in GONE):
            raise
