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
from dataclasses import dataclass
from datetime import datetime

from django.db import IntegrityError, InterfaceError, OperationalError, transaction
from psycopg.errors import IdleInTransactionSessionTimeout

from controlplane.domain.errors import LeaseLost, MiddlewatchError
from controlplane.domain.recovery.action import Effect
from controlplane.runbooks import reading, registry, undoing, world
from controlplane.runbooks.models import Execution, StepRun
from controlplane.runbooks.outcomes import Failed, Outcome, Wait
from controlplane.runbooks.queries import WORKING
from controlplane.runbooks.reading import Place
from controlplane.runbooks.transitions import begin, earlier, give_up, settle, write
from controlplane.runbooks.turn import Turn
from controlplane.runs.book import Book
from controlplane.runs.leases import Lease, Look, give_back, take

log = logging.getLogger(__name__)

LEASE_S = 1.0
"""A dead worker keeps an execution from going on no longer than this; with a look each second it is 2 s.

Every transition renews the lease. A worker that is slower between two of them than this may be
overtaken, and then writes nothing more; inside of one the row is locked, so nobody can.
"""
UNREADABLE = "its kept definition cannot be used by this version"
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
        going = _Going(lease)
        more = all(_turn(going, now) for _ in range(MAX_TURNS))
    except LeaseLost:
        log.warning("execution %s was taken over", execution_id)
        return Look.TAKEN
    return Look.DONE if give_back(lease) and not more else Look.AGAIN


@dataclass(slots=True)
class _Going:
    """A worker on its way through an execution; `acts_at` is where the next turn acts, as the last one left it."""

    lease: Lease
    acts_at: Place | None = None


def _turn(going: _Going, now: datetime, *, again: bool = False) -> bool:
    """Make a transition, with those that may join it, in one commit; say whether another may follow at once.

    When one of several raises, or a sentence of theirs is told elsewhere at this moment, nothing of them remains,
    and they are made `again`, one by one.
    """
    made: list[Turn] = []
    try:
        with _timed(going.lease), transaction.atomic():
            return _transitions(going, now, made, join=not again)
    except (OperationalError, InterfaceError, LeaseLost):  # nothing of the step's own: it is made again
        raise
    except Exception as error:  # whatever a step raises is told and costs only that step
        if isinstance(error.__cause__, IdleInTransactionSessionTimeout):  # stood still; Django calls it internal
            raise
        if len(made) > 1 or (isinstance(error, IntegrityError) and not again):
            return _turn(going, now, again=True)
        return _broken(going, now, _why(error))


def _why(error: Exception) -> str:
    if isinstance(error, MiddlewatchError):
        return str(error)
    log.error("execution failed in a step", exc_info=error)
    return f"internal error ({type(error).__name__})"


def _transitions(going: _Going, now: datetime, made: list[Turn], *, join: bool) -> bool:
    turn, more = _read(going, now), False
    while turn is not None:
        made.append(turn)
        more = _transition(turn, ruled=len(made) > 1)
        turn = _following(turn) if join and more else None
    if made:
        write(made)
    going.acts_at = _acts_next(made[-1]) if more else None
    return more


def _acts_next(turn: Turn) -> Place | None:
    """Return where the execution stands now when its step acts; a step that only looks keeps nobody out."""
    if turn.undoing or turn.spec.action.effect is not Effect.ACTS:
        return None
    return Place(turn.execution.step_index, turn.undoing)


def _following(turn: Turn) -> Turn | None:
    """Return the next turn when it may join this one: a step that acts has a commit and a world of its own."""
    after = Turn(turn.execution, turn.runbook, turn.now, turn.book, lease=turn.lease)
    after.effect = after.spec.action.effect
    joins = not turn.undoing and turn.effect is not Effect.ACTS and after.effect is turn.effect
    return after if joins else None


@contextmanager
def _timed(lease: Lease) -> Iterator[None]:
    """Code of a step that runs longer than a lease keeps others waiting at the row: that must be seen."""
    began = lease.held_s()
    yield
    took = lease.held_s() - began
    if took > LEASE_S:
        log.warning("a turn of %s took %.1f s, longer than its lease", lease.owner, took)


def _read(going: _Going, now: datetime) -> Turn | None:
    """Lock the execution and read what its step needs; before an act people and sweeps are kept from that too."""
    expected, tried = going.acts_at, None
    if expected is None:
        execution: Execution = going.lease.locked()
    else:
        execution, tried = reading.to_act(going.lease, expected)
    if execution.state not in WORKING:
        return None
    runbook = registry.readable(execution)
    turn = Turn(execution, runbook, now, Book(now, "runbook", runbook.id, whole=True), tried, lease=going.lease)
    if runbook.steps:
        turn.undo = undoing.step(turn) if turn.undoing else None
        turn.effect = turn.spec.action.effect
    place = Place(execution.step_index, turn.undoing)
    if place == expected:
        return turn
    if turn.effect is Effect.ACTS:
        turn.execution, turn.step_run = reading.to_act(going.lease, place)
    else:
        turn.step_run = reading.surroundings(execution, place)
    return turn


def _transition(turn: Turn, *, ruled: bool) -> bool:
    """Rule, begin what has to begin, and settle how it stands: the intent and what follows it are one commit."""
    if not turn.runbook.steps:
        return give_up(turn, UNREADABLE)
    if turn.undoing and turn.undo is None:
        return earlier(turn)
    ruling = None if ruled else world.ruling(turn)
    if ruling is None and _must_begin(turn) and not begin(turn):
        return False
    return settle(turn, ruling or _look(turn))


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


def _broken(going: _Going, now: datetime, why: str) -> bool:
    """Record that a step raised: nothing of its transaction remained."""
    with transaction.atomic():
        turn = _read(going, now)
        if turn is None:
            return False
        if _must_begin(turn) and not begin(turn, quietly=True):
            return False
        more = settle(turn, Failed(why))
        write([turn])
    return more
