"""A person who cancels the job of a run at the scheduler has spoken: the run is held in their name (methods 11.21).

Whatever waits in the queue behind that job is held there as well, or it would begin a
moment later against that person's will. Both end when somebody lifts the hold. A hold
that a runbook has set becomes the person's, so that the runbook's end does not lift it.
"""

from collections.abc import Iterable
from datetime import datetime

from django.db.models import Q

from controlplane.domain.chronicle import scheduling
from controlplane.fleet.models import SchedulerJob
from controlplane.live import actions as live
from controlplane.runs.book import Book
from controlplane.runs.calling_back import call_back
from controlplane.runs.models import Attempt, Run
from controlplane.runs.queueing import OVER, settle_queue

OURS = "middlewatch"
WORD = "CANCELLED"
SIGNED = " (execution "
"""Stands in the name under which an execution holds a run, and in no person's."""
MAX_BY = 100


def note_cancelled(run: Run, moved: Iterable[SchedulerJob], now: datetime, book: Book) -> None:
    """Hold a run whose job was cancelled by somebody else; `moved` are jobs whose state has just changed."""
    for job in moved:
        if job.state == WORD and job.by != OURS and _is_of_attempt(run, job):
            _hold(run, job, now, book)


def _is_of_attempt(run: Run, job: SchedulerJob) -> bool:
    """Say whether this is the newest attempt's job, and we did not end that attempt ourselves."""
    newest: Attempt | None = run.attempts.order_by("-number").first()
    if newest is None or newest.stopping_at is not None:
        return False
    return newest.job_id == job.job_id if newest.job_id else newest.number == job.attempt


def _hold(run: Run, job: SchedulerJob, now: datetime, book: Book) -> None:
    by = (job.by or f"whoever cancelled job {job.job_id}")[:MAX_BY]
    free = Run.objects.filter(Q(held=False) | Q(held_by__contains=SIGNED), pk=run.pk).exclude(state__in=OVER)
    if not free.update(held=True, held_by=by):
        return
    run.held, run.held_by = True, by
    settle_queue(run, now)
    call_back(run, now)
    book.tell(
        f"run:{run.name}", "hold", scheduling.cancelled(run.name, job.job_id, by),
        key=f"cancelled:{run.pk}:{job.job_id}", actor_kind="person", actor=by,
    )  # fmt: skip
    live.touch(f"run:{run.name}")
    live.touch("fleet", urgent=False)
