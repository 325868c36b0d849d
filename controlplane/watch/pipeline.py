"""Feed a run's reducer and commit what it makes of the events, all in one step.

One worker at a time leases the run. For each chunk of events one transaction
holds the reducer's new state, the cursor, the projections and the findings: a
worker may be killed anywhere and nothing is lost or done twice. What follows from
a finding is done in the same task right after the commit, without another hop.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from django.db import transaction

from controlplane.checkpoints import actions as checkpoints
from controlplane.domain.detection.run import RunMachine
from controlplane.domain.findings import Finding
from controlplane.domain.signals import Signal
from controlplane.events import queries as events
from controlplane.events.queries import StoredEvent
from controlplane.fleet import actions as fleet_actions
from controlplane.fleet import queries as fleet
from controlplane.incidents import actions as incidents
from controlplane.incidents import queries as incident_queries
from controlplane.incidents.models import Incident
from controlplane.live import actions as live
from controlplane.runbooks import actions as runbooks
from controlplane.runbooks import engine
from controlplane.runbooks.queries import live_of
from controlplane.runs import actions as runs
from controlplane.runs import queries as run_queries
from controlplane.runs.book import Book
from controlplane.runs.leases import Look
from controlplane.runs.machines import Held, machine_name
from controlplane.runs.models import Attempt, Machine, Run
from controlplane.runs.projection import members, spoken_for
from controlplane.runs.times import seconds
from controlplane.watch import results
from controlplane.watch.alone import each
from controlplane.watch.memory import Memory
from controlplane.watch.sweeping import CHUNK, sweep

log = logging.getLogger(__name__)

ATTEMPTS_KNOWN = 50
LINES = frozenset({"node.log", "rank.log"})
"""Kinds that may hold what no signature knows, which the run's page counts."""

memory: Memory[RunMachine] = Memory()


def sweep_run(run_id: int, owner: str, now: datetime) -> Look:
    """Bring a run up to the event log and follow up what was found.

    `owner` names one thread of one process.
    """
    run = Run.objects.filter(pk=run_id).first()
    if run is None:
        return Look.TAKEN
    taking = _Sweep(run, now)
    look = sweep(machine_name(run), owner, now, taking.chunk, run=run)
    return max(look, follow_up(run, taking.changed, owner, now)) if look else look


def follow_up(run: Run, changed: Sequence[Incident], owner: str, now: datetime) -> Look:
    """Carry on what works on the run, and consider each incident that is open or has just moved."""
    going = {incident.pk: incident for incident in [*changed, *incident_queries.open_of(run)]}
    looks = each(lambda one: engine.advance(one.pk, owner, now), live_of(run).exclude(incident__in=going))
    looks += each(lambda incident: runbooks.follow(incident, owner, now), going.values())
    return max(looks, default=Look.DONE)


@dataclass(slots=True)
class _Sweep:
    """One sweep of a run: the incidents that moved are gathered for what follows."""

    run: Run
    now: datetime
    changed: list[Incident] = field(default_factory=list)

    def chunk(self, held: Held) -> bool:
        """Take one chunk in and commit it; say whether more is waiting."""
        reducer = self._reducer(held.machine)
        found = events.since(held.machine.cursor, run=self.run.name, nodes=self._heard(reducer), limit=CHUNK)
        caught_up = len(found) < CHUNK
        with transaction.atomic():
            self._commit(held, reducer, found, caught_up=caught_up)
        memory.keep(held.machine, reducer)
        return not caught_up

    def _reducer(self, machine: Machine) -> RunMachine:
        policy = run_queries.policy(self.run)
        return memory.take(machine) or RunMachine.restore(machine.snapshot, policy, self.run.name)

    def _heard(self, reducer: RunMachine) -> set[str]:
        """Name the nodes whose own events the reducer and the ledger want."""
        newest = run_queries.newest_attempt(self.run)
        return {self.run.launcher, *reducer.nodes(), *(newest.nodes if newest else [])}

    def _commit(self, held: Held, reducer: RunMachine, found: Sequence[StoredEvent], *, caught_up: bool) -> None:
        """Write everything that these events mean; age and silence are judged only once the log is read."""
        lock(self.run)
        reducer.policy = run_queries.policy(self.run)
        said = [event.signal() for event in found]
        heard = hear(
            self.run, reducer, said, newest_attempts(self.run), rested=held.machine.rested_attempt, now=self.now
        )
        heard.judged = reducer.sweep(seconds(self.now)) if caught_up else []
        cursor = found[-1].id if found else held.machine.cursor
        self.changed += commit(self.run, held, reducer, heard, cursor=cursor, now=self.now)


@dataclass(slots=True)
class Heard:
    """What a run's reducer took in and made of it; nothing of it is written yet."""

    signals: list[Signal]
    rested: int = 0
    judged: list[Finding] = field(default_factory=list)


def introduce(reducer: RunMachine) -> None:
    """Tell a reducer which GPUs its nodes have, where they said so before the run was theirs."""
    strangers = reducer.strangers()
    known = {node.name: node for node in fleet.nodes_for(strangers)} if strangers else {}
    for name in strangers:
        node = known.get(name)
        reducer.introduce(name, node.hardware if node else {}, node.labels if node else {})


def newest_attempts(run: Run) -> list[Attempt]:
    """Read the attempts that events may still be about, newest first."""
    return list(run.attempts.order_by("-number")[:ATTEMPTS_KNOWN])


def hear(
    run: Run, reducer: RunMachine, said: Sequence[Signal], attempts: Sequence[Attempt], *, rested: int, now: datetime
) -> Heard:
    """Show the reducer what its run's nodes said, as far as they may say it. Reads and writes no table."""
    nodes = members(run, attempts, said)
    signals = [signal for signal in said if spoken_for(run, nodes, signal)]
    return Heard(signals, rested=_observe(reducer, signals, attempts, rested, now))


def commit(
    run: Run, held: Held, reducer: RunMachine, heard: Heard, *, cursor: int, now: datetime, keep: bool = True
) -> list[Incident]:
    """Write findings, projections and the reducer's state together; return the incidents that moved.

    Without `keep` the state stays with the caller, who has to live as long as the run.
    Part of the caller's transaction, which has locked the run by `lock`.
    """
    book = Book(now)
    changed = incidents.record(run, heard.judged, now, book=book)
    _project(run, heard.signals, now, book, believed=reducer.high_water_step)
    changed += incidents.settle(run, now, book=book)
    introduce(reducer)
    snapshot = reducer.snapshot() if keep else {}
    runs.save_machine(held, snapshot, cursor=cursor, now=now, rested=heard.rested)
    book.write()
    return changed


def lock(run: Run) -> None:
    """Read the run anew and lock incidents, then run, as executions do: another order would end in deadlocks."""
    unresolved = incident_queries.unresolved(run).select_for_update(of=("self",), no_key=True)
    list(unresolved.order_by("pk").values_list("pk"))
    run.refresh_from_db(from_queryset=Run.objects.select_for_update(no_key=True))


def _project(run: Run, signals: Sequence[Signal], now: datetime, book: Book, *, believed: int) -> None:
    if signals:
        runs.apply(run, signals, book, believed=max(believed, run.high_water_step))
        checkpoints.apply(run, signals, book)
        runs.note_cancelled(run, fleet_actions.note_jobs(run.name, signals), now, book)
        results.record(signals, now, book)
    if any(signal.kind in LINES for signal in signals):
        live.touch(f"run:{run.name}", urgent=False)


def _observe(
    reducer: RunMachine, signals: Sequence[Signal], attempts: Sequence[Attempt], rested: int, now: datetime
) -> int:
    """Show the reducer the signals; tell it to rest when we stop the attempt it watches, and to go on when we do not.

    The mark of our stop is read after the events, so whatever the stop caused comes
    after it. Returns the newest attempt whose stop the reducer was told of.
    """
    ours = max((item.number for item in attempts if item.stopping_at is not None), default=0)
    rested = _rest(reducer, ours, _go_on(reducer, attempts, rested, now), now)
    for signal in signals:
        try:
            reducer.observe(signal, seconds(now))
        except Exception:
            log.exception("an event of kind %s was skipped", signal.kind)
    return _rest(reducer, ours, rested, now)


def _go_on(reducer: RunMachine, attempts: Sequence[Attempt], rested: int, now: datetime) -> int:
    """Wake the reducer when the mark of our stop was taken back; it may be told of another one later."""
    unmarked = any(item.number == rested and item.stopping_at is None for item in attempts)
    if not unmarked or reducer.view(seconds(now)).attempt != rested:
        return rested
    reducer.go_on()
    return 0


def _rest(reducer: RunMachine, ours: int, rested: int, now: datetime) -> int:
    if ours <= rested or reducer.view(seconds(now)).attempt != ours:
        return rested
    reducer.rest(seconds(now))
    return ours
