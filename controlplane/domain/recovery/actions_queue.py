"""Actions on a run's jobs in the scheduler's queue: keep successors, hold them, let them go (R-13)."""

from collections.abc import Sequence

from controlplane.domain.recovery.action import Action, Effect, Kind, Param, Words

SUCCESSORS = 2
MAX_SUCCESSORS = 10
"""As many as an agent accepts (middlewatch_wire.commands.QueueArgs)."""

QUEUE_ACTIONS: Sequence[Action] = (
    Action(
        name="keep_queue",
        about="Keep jobs of the run waiting behind the one at work, off every node that is kept out.",
        effect=Effect.ACTS,
        limit_s=120,
        retries=2,
        by_launcher=True,
        gives=frozenset({"queued"}),
        params={
            "successors": Param(
                kind=Kind.COUNT,
                about="jobs that should wait behind the one at work",
                default=SUCCESSORS,
                most=MAX_SUCCESSORS,
            )
        },
        words=Words(
            waits_for="the launcher to fill up the queue",
            next="fill up the queue behind the job at work",
            doing="filling up the queue behind the job at work",
            done="Behind the job at work wait: {queued}.",
            failed="Could not fill up the queue: {why}.",
        ),
    ),
    Action(
        name="hold_job",
        about="Keep the run's waiting jobs from starting; their places in the queue and their age stay.",
        effect=Effect.ACTS,
        limit_s=60,
        retries=2,
        by_launcher=True,
        gives=frozenset({"held_jobs"}),
        undo="release_job",
        words=Words(
            waits_for="the launcher to hold the waiting jobs",
            next="hold the jobs that wait in the queue",
            doing="holding the jobs that wait in the queue",
            done="Held in the queue: {held_jobs}.",
            failed="Could not hold the jobs in the queue: {why}.",
        ),
    ),
    Action(
        name="release_job",
        about="Let the run's held jobs start when their turn comes.",
        effect=Effect.ACTS,
        limit_s=60,
        retries=2,
        by_launcher=True,
        words=Words(
            waits_for="the launcher to release the waiting jobs",
            next="release the held jobs in the queue",
            doing="releasing the held jobs in the queue",
            done="Released in the queue: {released_jobs}.",
            failed="Could not release the jobs in the queue: {why}.",
        ),
    ),
)
