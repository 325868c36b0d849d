"""Advance an execution: the database owns the work, whoever is awake carries it on.

A worker claims the execution by compare-and-set and gets a fencing number. Each
transition is one transaction that locks the row under that number, reads the
world anew, and writes state, commands and sentences together. So a worker may be
killed at any point: either a transition happened with everything it entails, or
it did not happen and the next worker makes it. Commands carry the key of
execution, step and try, so they exist once however often a step is begun.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

from django.db import DatabaseError, transaction

from controlplane.domain.errors import LeaseLost, MiddlewatchError
from controlplane.runbooks import registry, undoing, world
from controlplane.runbooks.models import Execution, StepRun
from controlplane.runbooks.outcomes import Failed, Outcome, Wait
from controlplane.runbooks.queries import WORKING
from controlplane.runbooks.transitions import begin, earlier, settle
from controlplane.runbooks.turn import Turn
from controlplane.runs.book import Book
from controlplane.runs.leases import Lease, Look, give_back, take

log = logging.getLogger(__name__)

LEASE_S = 1.5
"""A dead worker keeps an execution from going on no longer than this; with a look each second it is 2.5 s.

Every transition renews the lease. A worker that is slower between two of them than this may be
overtaken, and then writes nothing more; inside of one the row is locked, so nobody can.
"""
MAX_TURNS = 64
"""More turns in one go than any runbook needs; what is left waits for the next wake-up."""


def advance(execution_id: int, owner: str, now: datetime) -> Look:
    """Carry an execution on as far as the world allows at `now`.

    `owner` names one thread of one process. Safe to call from anywhere at any time.
    """
    rows = Execution.objects.filter(pk=execution_id, state__in=WORKING)
    lease = take(rows, owner, now, LEASE_S)
    if lease is None:
        return Look.TAKEN
    try:
        more = all(_turn(lease, now) for _ in range(MAX_TURNS))
    except LeaseLost:
        log.warning("execution %s was taken over", execution_id)
        return Look.TAKEN
    return Look.DONE if give_back(lease) and not more else Look.AGAIN


def _turn(lease: Lease, now: datetime) -> bool:
    """Make one transition; say whether another may follow at once."""
    try:
        with _timed(lease), transaction.atomic():
            turn = _read(lease, now)
            return turn is not None and _transition(turn)
    except (DatabaseError, LeaseLost):
        raise
    except MiddlewatchError as refusal:
        return _broken(lease, now, str(refusal))
    except Exception as error:
        log.exception("execution failed in a step")
        return _broken(lease, now, f"internal error ({type(error).__name__})")


@contextmanager
def _timed(lease: Lease) -> Iterator[None]:
    """Code of a step that runs longer than a lease keeps others waiting at the row: that must be seen."""
    began = lease.held_s()
    yield
    took = lease.held_s() - began
    if took > LEASE_S:
        log.warning("a turn of %s took %.1f s, longer than its lease", lease.owner, took)


def _read(lease: Lease, now: datetime) -> Turn | None:
    execution: Execution = lease.locked("run", "incident__run")
    if execution.state not in WORKING:
        return None
    runbook = registry.of(execution)
    turn = Turn(execution, runbook, now, Book(now, "runbook", runbook.id), lease=lease)
    tries = execution.steps.filter(index=execution.step_index, undo=turn.undoing)
    turn.step_run = tries.order_by("-try_number").first()
    if turn.undoing:
        turn.undo = undoing.step(turn)
    return turn


def _transition(turn: Turn) -> bool:
    """Rule, begin what has to begin, and settle how it stands: the intent and what follows it are one commit."""
    if turn.undoing and turn.undo is None:
        return earlier(turn)
    ruling = None if turn.undoing else world.ruling(turn)
    if ruling is None and _must_begin(turn) and not begin(turn):
        return False
    going = settle(turn, ruling or _look(turn))
    turn.book.write()
    return going


def _must_begin(turn: Turn) -> bool:
    return turn.step_run is None or turn.step_run.finished_at is not None


def _look(turn: Turn) -> Outcome:
    step = registry.step(turn.spec.action.name)
    outcome = step.look(turn)
    if isinstance(outcome, Wait) and _overdue(turn.tried, turn.now):
        return step.expired(turn)
    return outcome


def _overdue(tried: StepRun, now: datetime) -> bool:
    return tried.deadline is not None and now >= tried.deadline


def _broken(lease: Lease, now: datetime, why: str) -> bool:
    """Record that a step raised: nothing of its transaction remained."""
    with transaction.atomic():
        turn = _read(lease, now)
        if turn is None:
            return False
        if _must_begin(turn) and not begin(turn, quietly=True):
            return False
        going = settle(turn, Failed(why))
        turn.book.write()
    return going
