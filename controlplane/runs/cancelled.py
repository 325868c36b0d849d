"""A person who cancels the job of a run at the scheduler has spoken: the run is held in their name (methods 11.21).

Whatever waits in the queue behind that job is held there as well, or it would begin a
moment later against that person's will. Both end when somebody lifts the hold.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta

from controlplane.domain.chronicle import scheduling
from controlplane.domain.errors import NotFound
from controlplane.fleet import actions as fleet
from controlplane.fleet.models import Command, SchedulerJob
from controlplane.live import actions as live
from controlplane.runs.book import Book
from controlplane.runs.models import Attempt, Run, RunState

OURS = "middlewatch"
WORD = "CANCELLED"
OVER = (RunState.STOPPED, RunState.COMPLETED)
WITHIN = timedelta(minutes=5)
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
    free = Run.objects.filter(pk=run.pk, held=False).exclude(state__in=OVER)
    if not free.update(held=True, held_by=by):
        return
    run.held, run.held_by = True, by
    fleet.recall_commands(now, run=run.name)
    book.tell(
        f"run:{run.name}", "hold", scheduling.cancelled(run.name, job.job_id, by),
        key=f"cancelled:{run.pk}:{job.job_id}", actor_kind="person", actor=by,
    )  # fmt: skip
    _queue(run, "job.hold", f"{_key(run)}hold:{job.job_id}", now)
    live.touch(f"run:{run.name}")
    live.touch("fleet", urgent=False)


def let_queue_go(run: Run, now: datetime) -> None:
    """Let the jobs go on that were held in the queue together with the run; others stay held."""
    sent = Command.objects.filter(idempotency_key__startswith=_key(run)).order_by("-created_at").first()
    if sent is not None and sent.kind == "job.hold":
        _queue(run, "job.release", sent.idempotency_key.replace(":hold:", ":release:"), now)


def _queue(run: Run, kind: str, key: str, now: datetime) -> None:
    try:
        fleet.send_command(run.launcher, kind, {"run": run.name}, key=key, deadline=now + WITHIN, now=now)
    except NotFound:
        return  # a run of a replay has no launcher that could be asked


def _key(run: Run) -> str:
    return f"queue:{run.pk}:"
