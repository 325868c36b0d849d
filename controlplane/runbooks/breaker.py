"""Open the breaker when automation acts too much, before it acts once more.

It is asked where an execution is about to start, so what it costs is paid only then.
What it counts is in the tables of executions, buckets and ledger: no restart of the
control plane forgets it.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import QuerySet

from controlplane.domain.detection.policy import RunPolicy
from controlplane.domain.recovery.breaker import OUT_WINDOW_S, FleetRecord, Record, judge_fleet, judge_run
from controlplane.fleet import queries as fleet
from controlplane.live import actions as live
from controlplane.quarantine import queries as quarantine
from controlplane.runbooks import guards
from controlplane.runbooks.models import Execution, ExecutionState
from controlplane.runs import automation
from controlplane.runs.book import Book
from controlplane.runs.models import Run

WINDOW = timedelta(hours=1)
"""Failures on many runs count together within so long."""


def judge(run: Run, policy: RunPolicy, now: datetime) -> str:
    """Open the breaker of the run or of the fleet if that is due; return why automation only proposes, or "".

    Part of the caller's transaction, which has locked the run and told nothing yet.
    """
    standing = automation.standing(run)
    if standing.opened is not None:
        return standing.why_opened
    for about, why in _judged(run, policy, standing, now):
        if why and automation.open_breaker(about, why, now):
            book = Book(now, "system", "breaker")
            _tell(about, why, book)
            book.write()
            return automation.standing(run).why_opened
    return ""


def judge_fleet_alone(now: datetime, book: Book) -> str:
    """Do the same for what belongs to no run; the sentence waits in the book of the caller's transaction."""
    standing = automation.standing(None)
    if standing.opened is not None:
        return standing.why_opened
    why = _judged_fleet(standing, now)
    if why and automation.open_breaker(None, why, now):
        _tell(None, why, book)
    return automation.standing(None).why_opened


def record_of(run: Run, policy: RunPolicy, standing: automation.Standing, now: datetime) -> Record:
    """Count what automation did for a run as far as it counts."""
    since = _since(now - timedelta(seconds=policy.breaker_window_s), standing.counts_since(run))
    failed = failures(since).filter(run=run).count()
    return Record(failed=failed, empties=guards.empties(run, since))


def record_of_fleet(standing: automation.Standing, now: datetime) -> FleetRecord:
    """Count what it did for the fleet as far as it counts."""
    reset = standing.counts_since(None)
    return FleetRecord(
        runs_failed=failures(_since(now - WINDOW, reset)).values("run").distinct().count(),
        nodes_out=len(nodes_out(now, reset)),
        nodes=fleet.all_nodes().count(),
    )


def _judged(
    run: Run, policy: RunPolicy, standing: automation.Standing, now: datetime
) -> Iterator[tuple[Run | None, str]]:
    yield run, judge_run(record_of(run, policy, standing, now), policy)
    yield None, _judged_fleet(standing, now)


def _judged_fleet(standing: automation.Standing, now: datetime) -> str:
    record = record_of_fleet(standing, now)
    return judge_fleet(record, runs_failed=settings.BREAKER_RUNS, out_share=settings.BREAKER_SHARE)


def nodes_out(now: datetime, reset: datetime | None) -> list[datetime]:
    """Return when automation took nodes out within a day, as far as it counts."""
    window = timedelta(seconds=OUT_WINDOW_S)
    return quarantine.removals(now, min(window, now - reset) if reset else window)


def failures(since: datetime) -> QuerySet[Execution]:
    """Return the executions that failed since then."""
    return Execution.objects.filter(state=ExecutionState.FAILED, finished_at__gt=since)


def _since(window: datetime, reset: datetime | None) -> datetime:
    return max(window, reset) if reset else window


def _tell(run: Run | None, why: str, book: Book) -> None:
    about, home = (f"run {run.name}", f"run:{run.name}") if run else ("all runs", "fleet")
    told = f"The breaker opened: {why}. Automation only proposes for {about} until a person resets it."
    book.tell(home, "hold", told, actor_kind="system", actor="breaker")
    live.touch(home)
