"""Feed a run's reducer and commit what it makes of the events, all in one step.

One worker at a time leases the run. For each chunk of events one transaction
holds the reducer's new state, the cursor, the projections and the findings: a
worker may be killed anywhere and nothing is lost or done twice. What follows from
a finding is done in the same task right after the commit, without another hop.
"""

import logging
from datetime import datetime

from django.db import transaction

from controlplane.checkpoints import actions as checkpoints
from controlplane.domain.detection.run import RunMachine
from controlplane.domain.errors import LeaseLost
from controlplane.domain.signals import Signal
from controlplane.events import queries as events
from controlplane.incidents import actions as incidents
from controlplane.incidents import queries as incident_queries
from controlplane.incidents.models import Incident
from controlplane.runbooks import actions as runbooks
from controlplane.runbooks import engine
from controlplane.runbooks.queries import live_of
from controlplane.runs import actions as runs
from controlplane.runs import queries as run_queries
from controlplane.runs.book import Book
from controlplane.runs.machines import Held, machine_name
from controlplane.runs.models import Attempt, Run
from controlplane.runs.projection import spoken_for
from controlplane.runs.times import seconds
from controlplane.watch import results
from controlplane.watch.memory import Memory

log = logging.getLogger(__name__)

LEASE_S = 10.0
CHUNK = 500
MAX_CHUNKS = 20
"""Chunks of one sweep; a longer backlog goes on at the next one."""
ATTEMPTS_KNOWN = 50

memory: Memory[RunMachine] = Memory()


def sweep_run(run_id: int, owner: str, now: datetime) -> bool:
    """Bring a run up to the event log and follow up what was found; False when another worker has it.

    `owner` names one thread of one process.
    """
    run = Run.objects.filter(pk=run_id).first()
    if run is None:
        return False
    held = runs.lease_machine(machine_name(run), owner, now, LEASE_S, run=run)
    if held is None:
        return False
    try:
        changed = _sweep(held, run, now)
    except LeaseLost:
        log.warning("run %s was taken over", run.name)
        return False
    follow_up(run, changed, owner, now)
    return True


def _sweep(held: Held, run: Run, now: datetime) -> list[Incident]:
    changed: list[Incident] = []
    try:
        while True:
            for _ in range(MAX_CHUNKS):
                more = _chunk(held, run, now, changed)
                if not more:
                    break
            if runs.release_machine(held):
                return changed
    except Exception:
        runs.release_machine(held)
        raise


def _chunk(held: Held, run: Run, now: datetime, changed: list[Incident]) -> bool:
    """Take one chunk in and commit it; say whether more is waiting."""
    machine = held.machine
    reducer = memory.take(machine) or RunMachine.restore(machine.snapshot, run_queries.policy(run), run.name)
    found = events.since(machine.cursor, run=run.name, nodes=_heard(run, reducer), limit=CHUNK)
    more = len(found) == CHUNK
    with transaction.atomic():
        run.refresh_from_db()
        reducer.policy = run_queries.policy(run)
        attempts = list(run.attempts.order_by("-number")[:ATTEMPTS_KNOWN])
        signals = [signal for event in found if spoken_for(run, attempts, signal := event.signal())]
        rested = _observe(reducer, signals, attempts, machine.rested_attempt, now)
        book = Book(now)
        judged = [] if more else reducer.sweep(seconds(now))
        changed += incidents.record(run, judged, now, book=book)
        _project(run, signals, now, book)
        changed += incidents.settle(run, now, book=book)
        cursor = found[-1].id if found else machine.cursor
        runs.save_machine(held, reducer.snapshot(), cursor=cursor, now=now, rested=rested)
        book.write()
    memory.keep(machine, reducer)
    return more


def _heard(run: Run, reducer: RunMachine) -> set[str]:
    """Name the nodes whose own events the run's reducer and ledger want."""
    newest = run_queries.newest_attempt(run)
    return {run.launcher, *reducer.nodes(), *(newest.nodes if newest else [])}


def _observe(reducer: RunMachine, signals: list[Signal], attempts: list[Attempt], rested: int, now: datetime) -> int:
    """Show the reducer the signals; tell it to rest when we stop the attempt it watches.

    The mark of our stop is read after the events, so whatever the stop caused comes
    after it. Returns the newest attempt whose stop the reducer was told of.
    """
    ours = max((item.number for item in attempts if item.stopping_at is not None), default=0)
    rested = _rest(reducer, ours, rested, now)
    for signal in signals:
        try:
            reducer.observe(signal, seconds(now))
        except Exception:
            log.exception("an event of kind %s was skipped", signal.kind)
    return _rest(reducer, ours, rested, now)


def _rest(reducer: RunMachine, ours: int, rested: int, now: datetime) -> int:
    if ours <= rested or reducer.view(seconds(now)).attempt != ours:
        return rested
    reducer.rest(seconds(now))
    return ours


def _project(run: Run, signals: list[Signal], now: datetime, book: Book) -> None:
    if signals:
        runs.apply(run, signals, now, book)
        checkpoints.apply(run, signals, now, book)
        results.record(signals, now, book)


def follow_up(run: Run, changed: list[Incident], owner: str, now: datetime) -> None:
    """Carry on what works on the run, and consider each incident that is open or has just moved."""
    going = {incident.pk: incident for incident in [*changed, *incident_queries.open_of(run)]}
    for execution in live_of(run).exclude(incident__in=going):
        engine.advance(execution.pk, owner, now)
    for incident in going.values():
        runbooks.follow(incident, owner, now)
