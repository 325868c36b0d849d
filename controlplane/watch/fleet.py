"""Feed the reducer of the whole fleet: who said hello, who was heard, who fell silent.

It reads the events that belong to no run. What it finds holds automation back, is told,
or becomes an incident of the run whose nodes it is about; it never acts on a run itself.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from django.db import transaction

from controlplane.domain.chronicle import sentences
from controlplane.domain.detection.fleet import NO_WITNESS, FleetMachine, KeptOut, Witness
from controlplane.domain.detection.view import RunView
from controlplane.domain.errors import MiddlewatchError, Refused
from controlplane.domain.findings import Finding
from controlplane.domain.fleet.scheduling import is_ours
from controlplane.domain.fleet.spares import Pool
from controlplane.domain.recovery.acts import Act, Do
from controlplane.domain.signals import Signal
from controlplane.events import queries as events
from controlplane.events.queries import StoredEvent
from controlplane.fleet import actions as fleet
from controlplane.fleet import queries as fleet_queries
from controlplane.fleet.models import Node
from controlplane.incidents import actions as incidents
from controlplane.incidents import acts
from controlplane.incidents.models import Incident
from controlplane.live import actions as live
from controlplane.quarantine import actions as quarantine
from controlplane.quarantine import queries as quarantine_queries
from controlplane.runbooks import fleet_answers
from controlplane.runs import actions as runs
from controlplane.runs import queries as run_queries
from controlplane.runs.book import Book
from controlplane.runs.leases import Look
from controlplane.runs.machines import FLEET, Held
from controlplane.runs.models import Run
from controlplane.runs.projection import OF_LAUNCHERS
from controlplane.runs.times import moment, seconds
from controlplane.watch import pipeline, results, wake
from controlplane.watch.memory import Memory
from controlplane.watch.sweeping import CHUNK, sweep

log = logging.getLogger(__name__)

MAX_KEY = 200

memory: Memory[FleetMachine] = Memory()


def sweep_fleet(owner: str, now: datetime) -> Look:
    """Bring the fleet up to the event log."""
    return sweep(FLEET, owner, now, _Sweep(now).chunk)


@dataclass(frozen=True, slots=True)
class _Sweep:
    now: datetime

    def chunk(self, held: Held) -> bool:
        """Take one chunk in and commit it; say whether more is waiting."""
        reducer = memory.take(held.machine) or FleetMachine.restore(held.machine.snapshot)
        found = events.since(held.machine.cursor, limit=CHUNK)
        caught_up = len(found) < CHUNK
        with transaction.atomic():
            self._commit(held, reducer, found, caught_up=caught_up)
        memory.keep(held.machine, reducer)
        return not caught_up

    def _commit(self, held: Held, reducer: FleetMachine, found: Sequence[StoredEvent], *, caught_up: bool) -> None:
        signals = credible([event.signal() for event in found])
        hear(reducer, signals, self.now)
        judged = reducer.sweep(seconds(self.now), ask(reducer, _views, self.now)) if caught_up else []
        cursor = found[-1].id if found else held.machine.cursor
        commit(held, reducer, signals, judged, cursor=cursor, now=self.now)


def credible(signals: Sequence[Signal]) -> list[Signal]:
    """Leave out what nodes that launch no run say of schedulers and capacity: a token speaks only for its node."""
    if not any(signal.kind.startswith(OF_LAUNCHERS) for signal in signals):
        return list(signals)
    launchers = set(Run.objects.values_list("launcher", flat=True).distinct())
    return [signal for signal in signals if signal.node in launchers or not signal.kind.startswith(OF_LAUNCHERS)]


def hear(reducer: FleetMachine, signals: Sequence[Signal], now: datetime) -> None:
    """Show the reducer what nodes said. Reads and writes no table."""
    for signal in signals:
        _observe(reducer, signal, now)


def commit(
    held: Held,
    reducer: FleetMachine,
    signals: Sequence[Signal],
    judged: Sequence[Finding],
    *,
    cursor: int,
    now: datetime,
    keep: bool = True,
) -> list[Incident]:
    """Write findings, nodes and the reducer's state together; return the incidents that moved.

    Part of the caller's transaction. What a run has to answer becomes an incident of
    that run, and the run is woken.
    """
    book = Book(now)
    changed = [*_record(judged, now, book), *incidents.settle(None, now, book=book)]
    fleet_answers.answer(changed, now, book=book)
    _write(signals, now, book)
    _tell_drains(reducer, signals, book)
    doubt = reducer.view(seconds(now)).hold
    runs.save_machine(held, reducer.snapshot() if keep else {}, cursor=cursor, now=now, hold=doubt)
    book.write()
    return changed


def _record(judged: Sequence[Finding], now: datetime, book: Book) -> list[Incident]:
    """Write the fleet's own findings first, then each run's, under the locks that its sweeps take."""
    changed = incidents.record(None, [item for item in judged if item.run is None], now, book=book)
    for name in sorted({item.run for item in judged if item.run is not None}):
        run = Run.objects.filter(name=name).first()
        if run is not None:
            pipeline.lock(run)
            changed += incidents.record(run, [item for item in judged if item.run == name], now, book=book)
            transaction.on_commit(partial(wake.run, name))
    return changed


def _tell_drains(reducer: FleetMachine, signals: Sequence[Signal], book: Book) -> None:
    """Tell once who drained what at the scheduler; Middlewatch leaves it alone (L-09)."""
    spoken = {str(signal.data.get("node")) for signal in signals if signal.kind == "scheduler.node"}
    groups: dict[tuple[str, str], list[str]] = {}
    drained = reducer.drained() if spoken else {}
    for name in sorted(spoken & drained.keys()):
        reason, owner, _ = drained[name]
        if is_ours(reason, owner):
            continue
        groups.setdefault((reason, owner), []).append(name)
    for (reason, owner), names in groups.items():
        told = sentences.drained(names, reason, owner)
        since = max(drained[name][2] for name in names)
        book.tell("fleet", "finding", told, key=f"drained:{names[0]}:{since}"[:MAX_KEY])


def _observe(reducer: FleetMachine, signal: Signal, now: datetime) -> None:
    try:
        reducer.observe(signal, seconds(now))
    except Exception:
        log.exception("an event of kind %s was skipped", signal.kind)


def _write(signals: Sequence[Signal], now: datetime, book: Book) -> None:
    """Write hellos, last sights and command results; one row each, sights in a few."""
    for signal in signals:
        if signal.kind == "node.hello":
            _hello(signal, now, book)
    for at, names in _sights(signals):
        fleet.seen(names, moment(at))
    fleet.note_nodes(signals)
    results.record(signals, now, book)
    if signals:
        live.touch("fleet", urgent=False)


def _hello(signal: Signal, now: datetime, book: Book) -> None:
    try:
        node = fleet.hello(signal, now)
        returned = fleet_queries.returned(node.name, now) if node and not node.identity_conflict else None
        if returned is not None:
            _refuse(returned, now, book)
    except MiddlewatchError as error:
        log.warning("the hello of %s was not taken: %s", signal.node, error)


def _refuse(returned: fleet_queries.Returned, now: datetime, book: Book) -> None:
    """Take no machine in that the ledger keeps out under another name (L-01)."""
    name = returned.node.name
    try:
        entry = quarantine.refuse(returned, now=now, book=book)
    except Refused as error:
        told = f"Node {name} is the machine that is kept out as {returned.before.name}, but {error}."
        book.tell("fleet", "hold", told, key=f"returned:{name}:{returned.node.incarnation}"[:MAX_KEY])
        return
    if entry is not None:
        acts.record(Act(do=Do.REFUSE, node=name, why=entry.reason, key=f"ledger:{entry.pk}"), now)


def _sights(signals: Iterable[Signal]) -> list[tuple[float, list[str]]]:
    """Group nodes by the second in which they were last heard: a few updates for a thousand nodes."""
    last: dict[str, float] = {}
    for signal in signals:
        last[signal.node] = max(signal.received, last.get(signal.node, 0.0))
    groups: dict[int, list[str]] = {}
    for name, at in last.items():
        groups.setdefault(int(at), []).append(name)
    return [(max(last[name] for name in names), sorted(names)) for _, names in sorted(groups.items())]


@dataclass(frozen=True, slots=True)
class Ledger:
    """What the tables say of nodes; it changes only when somebody writes."""

    kept_out: Mapping[str, KeptOut]
    disputed: frozenset[str]
    spares: int
    pool: Pool


def read_ledger(now: datetime) -> Ledger:
    """Read what the fleet's reducer asks of the tables."""
    kept_out = {node.name: _kept_out(node) for node in fleet_queries.kept_out()}
    spares = len(fleet_queries.spares())
    return Ledger(
        kept_out=kept_out,
        disputed=frozenset(fleet_queries.in_conflict()),
        spares=spares,
        pool=_pool(spares, len(kept_out), now),
    )


def _pool(spares: int, kept_out: int, now: datetime) -> Pool:
    """Say what the spares have to last for: the nodes that train, and how often nodes failed of late."""
    failures, days = quarantine_queries.failures(now)
    return Pool(nodes=fleet_queries.training(), spares=spares, size=spares + kept_out, failures=failures, days=days)


def ask(
    reducer: FleetMachine,
    views: Callable[[], Iterable[RunView]],
    now: datetime,
    *,
    read: Callable[[datetime], Ledger] = read_ledger,
) -> Witness:
    """Ask the runs and the ledger about the nodes, when the reducer needs to know.

    `views` is called only when somebody is silent, broken, or kept out and might train all the same.
    """
    at = seconds(now)
    if not reducer.asks(at):
        return NO_WITNESS
    ledger = read(now)
    return Witness.of(
        views() if ledger.kept_out or reducer.has_faults() or reducer.in_doubt(at) else (),
        kept_out=ledger.kept_out,
        disputed=ledger.disputed,
        spares=ledger.spares,
        pool=ledger.pool,
    )


def _kept_out(node: Node) -> KeptOut:
    return KeptOut(state=node.state, since=seconds(node.state_since), why=node.state_reason)


def _views() -> list[RunView]:
    """Read what the runs' reducers knew at their last sweep; restoring them is dear, so nobody asks without need."""
    return [view for run in run_queries.awake() if (view := run_queries.view(run)) is not None]
