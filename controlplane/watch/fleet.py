"""Feed the reducer of the whole fleet: who said hello, who was heard, who fell silent.

It reads the events that belong to no run. What it finds holds automation back or
is told; it never acts on a run.
"""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction

from controlplane.domain.detection.fleet import NO_WITNESS, FleetMachine, Witness
from controlplane.domain.detection.view import RunView
from controlplane.domain.errors import MiddlewatchError
from controlplane.domain.findings import Finding
from controlplane.domain.fleet.states import KEPT_OUT
from controlplane.domain.signals import Signal
from controlplane.events import queries as events
from controlplane.events.queries import StoredEvent
from controlplane.fleet import actions as fleet
from controlplane.fleet import queries as fleet_queries
from controlplane.incidents import actions as incidents
from controlplane.incidents.models import Incident
from controlplane.live import actions as live
from controlplane.runbooks import fleet_answers
from controlplane.runs import actions as runs
from controlplane.runs import queries as run_queries
from controlplane.runs.book import Book
from controlplane.runs.leases import Look
from controlplane.runs.machines import FLEET, Held
from controlplane.runs.times import moment, seconds
from controlplane.watch import results
from controlplane.watch.memory import Memory
from controlplane.watch.sweeping import CHUNK, sweep

log = logging.getLogger(__name__)

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
        signals = [event.signal() for event in found]
        hear(reducer, signals, self.now)
        judged = reducer.sweep(seconds(self.now), _witness(reducer, self.now)) if caught_up else []
        cursor = found[-1].id if found else held.machine.cursor
        commit(held, reducer, signals, judged, cursor=cursor, now=self.now)


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
) -> list[Incident]:
    """Write findings, nodes and the reducer's state together; return the incidents that moved.

    Part of the caller's transaction.
    """
    book = Book(now)
    changed = incidents.record(None, judged, now, book=book)
    fleet_answers.answer(changed, now, book=book)
    _write(signals, now, book)
    doubt = reducer.view(seconds(now)).hold
    runs.save_machine(held, reducer.snapshot(), cursor=cursor, now=now, hold=doubt)
    book.write()
    return changed


def _observe(reducer: FleetMachine, signal: Signal, now: datetime) -> None:
    try:
        reducer.observe(signal, seconds(now))
    except Exception:
        log.exception("an event of kind %s was skipped", signal.kind)


def _write(signals: Sequence[Signal], now: datetime, book: Book) -> None:
    """Write hellos, last sights and command results; one row each, sights in a few."""
    for signal in signals:
        if signal.kind == "node.hello":
            _hello(signal, now)
    for at, names in _sights(signals):
        fleet.seen(names, moment(at))
    results.record(signals, now, book)
    if signals:
        live.touch("fleet", urgent=False)


def _hello(signal: Signal, now: datetime) -> None:
    try:
        fleet.hello(signal, now)
    except MiddlewatchError as error:
        log.warning("the hello of %s was not taken: %s", signal.node, error)


def _sights(signals: Iterable[Signal]) -> list[tuple[float, list[str]]]:
    """Group nodes by the second in which they were last heard: a few updates for a thousand nodes."""
    last: dict[str, float] = {}
    for signal in signals:
        last[signal.node] = max(signal.received, last.get(signal.node, 0.0))
    groups: dict[int, list[str]] = {}
    for name, at in last.items():
        groups.setdefault(int(at), []).append(name)
    return [(max(last[name] for name in names), sorted(names)) for _, names in sorted(groups.items())]


def _witness(reducer: FleetMachine, now: datetime) -> Witness:
    """Ask the runs about their nodes, only when somebody is silent."""
    if not reducer.view(seconds(now)).silent:
        return NO_WITNESS
    return witness(view for run in run_queries.awake() if (view := run_queries.view(run)) is not None)


def witness(views: Iterable[RunView]) -> Witness:
    """Put together what the runs' reducers and the ledger know of the nodes."""
    kept_out = fleet_queries.all_nodes().filter(state__in=KEPT_OUT).values_list("name", flat=True)
    return Witness.of(views, kept_out=kept_out)
