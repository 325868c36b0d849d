"""What the end of a job means for its attempt. Pure.

A person's cancellation is told apart from ours by our own intent, written before we
act: Slurm says only CANCELLED, and whoever cancelled must not see the job come back.
"""

from collections.abc import Mapping
from typing import Any

from middlewatch_agent.launcher.records import AttemptRecord
from middlewatch_agent.launcher.slurm import view
from middlewatch_agent.launcher.slurm.view import Job

OURS = "middlewatch"
SOMEBODY = "somebody outside Middlewatch"
CANCELLED = "CANCELLED"
LAUNCH_FAILED = "LAUNCH_FAILED"
REASONS: Mapping[str, str] = {
    "COMPLETED": "completed",
    "FAILED": "failed",
    "OUT_OF_MEMORY": "failed",
    LAUNCH_FAILED: "failed",
    CANCELLED: "killed",
    "TIMEOUT": "timeout",
    "DEADLINE": "timeout",
    "NODE_FAIL": "node_fail",
    "BOOT_FAIL": "node_fail",
    "PREEMPTED": "preempted",
}
WHY: Mapping[str, str] = {
    "OUT_OF_MEMORY": "Slurm ended it: out of memory",
    "DEADLINE": "Slurm ended it: its deadline has passed",
    LAUNCH_FAILED: "a node could not begin it, and Slurm cancelled it",
    "BOOT_FAIL": "a node could not be booted",
    "TIMEOUT": "its time limit",
    "PREEMPTED": "a job of higher priority took its nodes",
}
FORGOTTEN = "Slurm no longer knows job {job}; how it ended is not known"


def exited(record: AttemptRecord, job: Job | None, by: str) -> dict[str, Any]:
    """Give the data of `attempt.exited`; `by` is who cancelled, where Slurm tells; without a job nobody knows."""
    if record.stop_asked or record.why:
        why = {"why": record.why} if record.why else {"by": OURS}
        return {"reason": "failed" if record.why else "killed", "exit_code": job.exit_code if job else None, **why}
    if job is None:
        return {"reason": "failed", "exit_code": None, "why": FORGOTTEN.format(job=record.job)}
    reason = REASONS.get(job.state, "failed")
    began = job.state != LAUNCH_FAILED
    data: dict[str, Any] = {"reason": reason, "exit_code": job.exit_code if began else None}
    if job.state == CANCELLED:
        return data | {"by": by or SOMEBODY, "why": f"job {job.job_id} was cancelled by {by or SOMEBODY}"}
    saved = "; its ranks had saved and ended" if job.exit_code == view.SAVED else ""
    return data | ({"why": WHY[job.state] + saved} if job.state in WHY else {})


def told_state(record: AttemptRecord, job: Job, by: str) -> dict[str, Any]:
    """Give state and author of a job for `scheduler.job`: an end that we asked for is our cancellation."""
    ours = record.stop_asked and not job.active
    state = CANCELLED if ours else job.state
    if state != CANCELLED:
        return {"state": "FAILED" if state == LAUNCH_FAILED else state}
    return {"state": state, "by": OURS if ours else by or SOMEBODY}
