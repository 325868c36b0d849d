"""An attempt that ended by the scheduler's decision, and nothing follows it (D-17, R-13).

A time limit and a preemption are no faults: nobody is blamed and nothing is counted as
failed. But a run that nobody launches again stands as still as one that crashed.
"""

from controlplane.domain.detection import maintenance
from controlplane.domain.detection.intake import MEANT
from controlplane.domain.detection.policy import RunPolicy
from controlplane.domain.detection.queue_state import AT_WORK, PENDING, Judged
from controlplane.domain.detection.state import AttemptState, RunState
from controlplane.domain.fleet.scheduling import OLD_AFTER_S

SORT = "ended"
WORDS = {"timeout": "reached its time limit", "preempted": "was preempted"}


def unfollowed(state: RunState, policy: RunPolicy, now: float) -> Judged | None:
    """Tell that the last attempt was ended and no job of the run waits or works, unless maintenance explains it."""
    ended = None if maintenance.rests(state, policy, now) else _ended(state, now)
    if ended is None or ended.ended_at is None or now < ended.ended_at + _patience_s(state, ended, policy):
        return None
    return Judged(
        sort=SORT,
        klass="capacity",
        severity="critical",
        began=ended.ended_at,
        sentence=f"attempt {ended.number} of run {state.run} {WORDS[ended.ended_reason]} and no job follows it",
    )


def _ended(state: RunState, now: float) -> AttemptState | None:
    """Give the attempt that was ended by the scheduler, unless we had stopped it or a job stands behind it.

    A job that is not repeated any more has left the queue without a word.
    """
    attempt = state.attempt
    if attempt is None or attempt.ended_reason not in MEANT or attempt.rested_at is not None:
        return None
    others = [job for name, job in state.queue.jobs.items() if name != attempt.job_id]
    going = any(job.state in {PENDING, *AT_WORK} and now - job.heard_at <= OLD_AFTER_S for job in others)
    return None if going else attempt


def _patience_s(state: RunState, ended: AttemptState, policy: RunPolicy) -> float:
    """A successor that was counted but not yet seen has the time that any waiting job has."""
    job = state.queue.jobs.get(ended.job_id)
    return policy.queue_pending_s if job is not None and job.successors else policy.settle_s


def moments(state: RunState, policy: RunPolicy, now: float) -> list[float]:
    """Give when an end without a successor is to be told, and when a successor counts as gone."""
    ended = _ended(state, now)
    if ended is not None and ended.ended_at is not None:
        return [ended.ended_at + _patience_s(state, ended, policy)]
    if state.attempt is None or state.attempt.ended_reason not in MEANT:
        return []
    return [job.heard_at + OLD_AFTER_S + 1 for job in state.queue.jobs.values() if job.state in {PENDING, *AT_WORK}]
