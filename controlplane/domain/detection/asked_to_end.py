"""Ranks that were asked to end, and by whom: a scheduler says so seconds after they have gone (methods 11.21).

When a person cancels a job, or its time is up, the scheduler sends SIGTERM, and the
nodes report dead ranks before the head node reports why. So a death by that signal
alone is a suspicion until the scheduler has had time to speak.
"""

from controlplane.domain.detection import exits
from controlplane.domain.detection.policy import RunPolicy
from controlplane.domain.detection.state import RESTING, AttemptState, RunState
from controlplane.domain.findings import Finding, Stage

LOCAL = "local"
WHY = {
    "cancelled": "the job was cancelled, so its ranks ended for no fault of theirs",
    "killed": "the job was ended on purpose, so its ranks ended for no fault of theirs",
    "timeout": "the job reached its time limit, so its ranks ended for no fault of theirs",
    "preempted": "the job was preempted, so its ranks ended for no fault of theirs",
}


def key_of(state: RunState, attempt: AttemptState) -> str:
    """Name the finding about an attempt's death."""
    return f"{state.run}/{attempt.number}/crash"


def doubtful(state: RunState, attempt: AttemptState, policy: RunPolicy, now: float) -> bool:
    """Say whether the scheduler may have ended these ranks and may yet say so."""
    waits = moments(state, attempt, policy)
    return bool(waits) and now < waits[0] and _all_asked(attempt)


def moments(state: RunState, attempt: AttemptState, policy: RunPolicy) -> list[float]:
    """Give when the scheduler has had time to speak; our own launcher knows what it did."""
    if attempt.scheduler in ("", LOCAL) or attempt.ended_at is not None or state.death.found_at is None:
        return []
    return [state.death.found_at + policy.scheduler_word_s]


def _all_asked(attempt: AttemptState) -> bool:
    """Say whether a rank was asked to end, and none died of anything but that and what follows from it."""
    dead = [rank for rank in attempt.ranks.values() if rank.died]
    asked = [rank.exited_at or 0.0 for rank in dead if rank.signal == exits.TERM]
    if not asked:
        return False
    forced = [rank for rank in dead if rank.signal == exits.KILL and (rank.exited_at or 0.0) >= min(asked)]
    return all(exits.judge(rank).weight <= 0 for rank in dead if rank not in forced)


def excused(state: RunState, now: float) -> list[Finding]:
    """Take back what was told of deaths that turn out to be meant; what we stopped ourselves is another matter."""
    attempt = state.attempt
    if attempt is None or attempt.state != RESTING or attempt.rested_at is not None or attempt.scheduler == LOCAL:
        return []
    told = state.told.get(key_of(state, attempt))
    if told is None or told.stage == Stage.CLEARED or attempt.ended_reason not in WHY or not _all_asked(attempt):
        return []
    return [
        Finding(
            key=key_of(state, attempt),
            detector=told.detector,
            klass=told.klass,
            stage=Stage.CLEARED,
            entity=told.entity,
            began=told.began,
            at=now,
            run=state.run,
            attempt=attempt.number,
            severity="info",
            sentence=WHY[attempt.ended_reason],
        )
    ]
