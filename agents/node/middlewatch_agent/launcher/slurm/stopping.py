"""End a job and prove it: ask, force, and fence the nodes that cannot tell.

A job whose node is dead stays in COMPLETING until Slurm gives the node up, minutes
later; and a node whose daemon alone died keeps its ranks as ghosts that Slurm no longer
sees. So after the last signal every node that has not told the end of its processes is
drained and set down with our mark: nothing is placed there again, the attempt can be
started elsewhere, and whoever gives the node back must first prove that it is empty.
"""

import time
from collections.abc import Callable, Sequence

from middlewatch_agent.launcher.slurm.nodes import fence
from middlewatch_agent.launcher.slurm.tools import ToolError, Tools
from middlewatch_agent.launcher.slurm.view import COMPLETING, PENDING, Job

LOOK_S = 0.15
GONE = ("invalid job id", "already completing", "already completed", "completing")
"""What Slurm says of a job that needs no signal any more."""


class Stopper:
    """Ends jobs. Raises UnknownError where the controller does not answer."""

    def __init__(self, tools: Tools, fence_s: float) -> None:
        """Fence a node that has not told the end of its processes `fence_s` after SIGKILL."""
        self._tools = tools
        self._fence_s = fence_s

    def end(self, ours: Callable[[Job], bool], grace_s: float, why: str) -> list[str]:
        """End every job that is `ours`; give the nodes that had to be fenced."""
        living = self._living(ours)
        self._ask(living)
        if any(job.state not in (PENDING, COMPLETING) for job in living):
            living = self._until_ended(ours, grace_s)
        if not living:
            return []
        self._force(living)
        left = self._until_ended(ours, self._fence_s)
        return self._fence(left, ours, why) if left else []

    def _living(self, ours: Callable[[Job], bool]) -> list[Job]:
        return [job for job in self._tools.jobs() if job.active and ours(job)]

    def _until_ended(self, ours: Callable[[Job], bool], seconds: float) -> list[Job]:
        deadline = time.monotonic() + seconds
        while (left := self._living(ours)) and time.monotonic() < deadline:
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
            _unless_gone(lambda job_id: self._tools.signal(job_id, "KILL", batch=True), job.job_id)
            _unless_gone(self._tools.cancel, job.job_id)

    def _fence(self, left: Sequence[Job], ours: Callable[[Job], bool], why: str) -> list[str]:
        nodes = sorted({node for job in left for node in job.nodes})
        for node in nodes:
            fence(self._tools, node, why)
        self._until_ended(ours, self._fence_s)
        return nodes


def _unless_gone(act: Callable[[str], None], job_id: str) -> None:
    try:
        act(job_id)
    except ToolError as error:
        if not any(sign in str(error).lower() for sign in GONE):
            raise
