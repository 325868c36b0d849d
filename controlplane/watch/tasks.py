"""What Celery calls: read the clock, parse an id, call one action.

A task never waits and owns nothing. Losing one costs a sweep; running one twice
costs a look at a lease. Who was knocked at looks again, each time by the clock.
A worker that stood still inside a transaction finds it ended: it says so and goes on.
"""

import logging
import os
import socket
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial

from celery import shared_task
from django.conf import settings
from django.db import DatabaseError, transaction
from psycopg.errors import IdleInTransactionSessionTimeout

from controlplane.access import links
from controlplane.events import partitions
from controlplane.fleet import actions as fleet
from controlplane.fleet import pruning as commands
from controlplane.fleet.commands import overdue
from controlplane.live import tasks as live
from controlplane.notify import deadman as dead_men
from controlplane.notify import pruning
from controlplane.notify import tasks as notify
from controlplane.notify.sender import sender
from controlplane.quarantine import reconcile as reconciliation
from controlplane.runbooks import actions as runbooks
from controlplane.runbooks import starting
from controlplane.runbooks.queries import due, living
from controlplane.runs.book import Book
from controlplane.runs.leases import Look
from controlplane.runs.machines import fleet_hold
from controlplane.runs.models import Run
from controlplane.runs.queries import awake
from controlplane.runs.queueing import settle_again
from controlplane.watch import fleet as fleet_watch
from controlplane.watch import pipeline, results, vitals
from controlplane.watch.alone import each

log = logging.getLogger(__name__)

DUE_AT_ONCE = 100
EXPIRES_S = 6.0
"""Twice what the messages of beat live: when workers cannot keep up, looks at runs are the last to be dropped."""
MAX_LOOKS = 20
"""Looks of one task under constant knocking; the sweep of the next second goes on."""


def owner() -> str:
    """Name this thread of this process, as leases know it."""
    return f"{socket.gethostname()[:60]}:{os.getpid()}:{threading.get_ident()}"


def _now() -> datetime:
    return datetime.now(UTC)


def _until_quiet(look: Callable[[datetime], Look]) -> None:
    try:
        for _ in range(MAX_LOOKS):
            if look(_now()) is not Look.AGAIN:
                return
    except DatabaseError as error:
        if not isinstance(error.__cause__, IdleInTransactionSessionTimeout):
            raise
        log.warning(
            "%s stood still inside a transaction, so the database ended it: nothing of it remains, "
            "and whoever was awake has gone on", owner(),
        )  # fmt: skip


@shared_task
def sweep_run(run: int | str) -> None:
    """Bring one run, by its id or name, up to the event log."""
    known = Run.objects.filter(pk=run) if isinstance(run, int) else Run.objects.filter(name=run)
    run_id = known.values_list("pk", flat=True).first()
    if run_id is not None:
        _until_quiet(lambda now: pipeline.sweep_run(run_id, owner(), now))


@shared_task
def sweep_runs() -> None:
    """Have every run that is not over swept, each by whichever worker is free."""
    for run_id in awake().values_list("pk", flat=True):
        sweep_run.apply_async((run_id,), expires=EXPIRES_S)


@shared_task
def each_second() -> None:
    """Do what takes a moment: have runs swept, send what pages wait for, give signs of life, call people.

    Each part is a task as well. Sweeps are only asked for, and wait for no page; the longest comes last.
    """
    each(lambda part: part(), (sweep_runs, live.flush, give_signs_of_life, notify.tend))


@shared_task
def sweep_fleet() -> None:
    """Bring the fleet up to the event log."""
    _until_quiet(lambda now: fleet_watch.sweep_fleet(owner(), now))


@shared_task
def advance(execution_id: int) -> None:
    """Carry one execution on."""
    _until_quiet(lambda now: runbooks.pursue(int(execution_id), owner(), now))


@shared_task
def advance_due() -> None:
    """Carry on what waits for a time that has come, and end commands that nobody answered."""
    now = _now()
    each(lambda job: job(now), (_expire, _advance_due, starting.tidy, runbooks.lapse))


def _expire(now: datetime) -> None:
    """Lock the runs before their commands, as sweeps do: one may be taking in the late result of one of them."""
    with transaction.atomic():
        names = list(overdue(now).values_list("args__run", flat=True))
        list(Run.objects.select_for_update(no_key=True).filter(name__in=names).order_by("pk").values_list("pk"))
        book = Book(now)
        expired = fleet.expire_commands(now)
        for command in expired:
            results.ended(command, now, book)
        book.write()
    each(advance, {command.execution_id for command in expired if command.execution_id})


def _advance_due(now: datetime) -> None:
    each(advance, due(now).values_list("pk", flat=True)[:DUE_AT_ONCE])


@shared_task
def reconcile() -> None:
    """Ask schedulers to follow people's holds, and the ledger too unless automation lets the whole fleet alone."""
    each(lambda job: job(_now()), (settle_again, _reconcile))


def _reconcile(now: datetime) -> None:
    if not fleet_hold():
        reconciliation.reconcile(now)


@shared_task
def give_signs_of_life() -> None:
    """Tell outside addresses that we are well, where one expects it now; waits for no receiver."""
    waiting = dead_men.due(_now())
    if waiting:
        unwell = vitals.unwell(_now())
        for row in waiting:
            sender().hand_over(f"sign of life {row}", partial(dead_men.sign, row, unwell, _now))


@shared_task
def housekeeping() -> None:
    """Make tomorrow's partitions, drop what is old, and take back proposals that nobody needs."""
    now = _now()
    keep = timedelta(days=settings.COMMAND_RETENTION_DAYS)
    parts: tuple[Callable[[], object], ...] = (
        partial(partitions.maintain, now),
        partial(fleet.forget_old, now),
        partial(runbooks.withdraw_idle, now),
        partial(links.forget, now),
        partial(links.forget_sign_in, now, keep),
        lambda: commands.prune(now, keep, living=living()),
        partial(pruning.prune, now, timedelta(days=settings.MESSAGE_RETENTION_DAYS)),
    )
    each(lambda part: part(), parts)
