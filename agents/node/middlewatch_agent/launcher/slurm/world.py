"""The newest known picture of the scheduler, and how old it is.

No answer is no picture: what was known stays, with its age, and nobody is called
ended because the controller is silent. A job counts as forgotten only when a
controller that does answer has not known it for a while.

Who acts takes a picture of that moment. It is the newest known one too, so the next look
need not ask again.
"""

import logging
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from middlewatch_agent.launcher.slurm import view
from middlewatch_agent.launcher.slurm.tools import ToolError, Tools, UnknownError
from middlewatch_agent.launcher.slurm.view import Job, Maintenance, Node

log = logging.getLogger(__name__)

FORGOTTEN_MS = 10_000
PLAN_MS = 60_000
BLIND_S = 60.0
"""Without an answer for so long the launcher tells that it does not see the scheduler."""


class World:
    """Looks when asked, at most every `poll_s`. May be called from several threads."""

    def __init__(self, tools: Tools, poll_s: float) -> None:
        """Know nothing yet."""
        self.jobs: Mapping[str, Job] = {}
        self.nodes: Mapping[str, Node] = {}
        self.maintenances: Sequence[Maintenance] = ()
        self.looked_ms: int | None = None
        """When the picture was taken; None while there is none."""
        self._tools = tools
        self._poll_ms = round(poll_s * 1000)
        self._tried_ms: int | None = None
        self._plan_ms = -PLAN_MS
        self._missing: dict[str, int] = {}
        self._lock = threading.Lock()
        self._asked = self._taken = self._shown = 0
        """Numbers of the newest picture that was asked for, that was taken, and that `look` has shown."""
        self._answered = time.monotonic()
        self._why = ""

    def look(self, now_ms: int) -> bool:
        """Take a new picture where the last is old; True where there is a new one and the controller answered."""
        if self._taken > self._shown:
            return self._show(now_ms)
        with self._lock:
            if self._tried_ms is not None and now_ms - self._tried_ms < self._poll_ms:
                return False
            self._tried_ms = now_ms
        try:
            self.renew()
            self._read_plan(now_ms)
        except (UnknownError, ToolError) as error:
            self._blind(str(error))
            return False
        return self._show(now_ms)

    def renew(self) -> None:
        """Take a picture of this moment. Raises UnknownError or ToolError; then the last one stays."""
        with self._lock:
            self._asked += 1
            mine = self._asked
        jobs = self._tools.jobs()
        nodes = {node.name: node for node in self._tools.nodes()}  # asked last: they tell why a job has ended
        with self._lock:
            if mine > self._taken:
                self.nodes, self.jobs = nodes, {job.job_id: view.unlaunched(job, nodes) for job in jobs}
                self._taken, self._answered, self._why = mine, time.monotonic(), ""

    def _show(self, now_ms: int) -> bool:
        self._shown, self.looked_ms = self._taken, now_ms
        return True

    def _read_plan(self, now_ms: int) -> None:
        """Ask for maintenances too, which are planned days ahead, once a minute."""
        if now_ms - self._plan_ms >= PLAN_MS:
            self.maintenances, self._plan_ms = self._tools.maintenances(), now_ms

    def hurry(self) -> None:
        """Let the next look be a new one: something was just done."""
        self._tried_ms, self._shown = None, self._taken

    def forgotten(self, job_id: str, now_ms: int) -> bool:
        """Whether an answering controller has not known a job for some seconds."""
        if self.looked_ms is None or job_id in self.jobs:
            self._missing.pop(job_id, None)
            return False
        since = self._missing.setdefault(job_id, self.looked_ms)
        return min(now_ms, self.looked_ms) - since >= FORGOTTEN_MS

    def reader(self) -> dict[str, Any]:
        """The heartbeat's entry: not `ok` when the controller has not answered for a minute."""
        age_s = time.monotonic() - self._answered
        return {"ok": not self._why or age_s < BLIND_S, "last_read_age_s": round(age_s, 1)}

    def _blind(self, why: str) -> None:
        if why != self._why:
            log.warning("Slurm does not answer, so nothing is known and nothing is done: %s", why)
        self._why = why
