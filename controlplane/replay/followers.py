"""Keep the reducers in memory between writes: a quiet hour costs no transaction.

Each follower shows its reducer what arrives and asks it what follows. Only when
something follows, or when rows have to be right for a decision, everything that waited
is written by the same functions that write it live (watch.pipeline, watch.fleet).
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from django.db import transaction

from controlplane.domain.detection.fleet import FleetMachine
from controlplane.domain.detection.run import RunMachine
from controlplane.domain.findings import Finding
from controlplane.domain.signals import Signal
from controlplane.incidents.models import Incident
from controlplane.runs import actions as runs
from controlplane.runs import queries as run_queries
from controlplane.runs.machines import FLEET, Held, machine_name
from controlplane.runs.models import Attempt, Run
from controlplane.runs.projection import whole
from controlplane.runs.times import seconds
from controlplane.watch import fleet as fleet_watch
from controlplane.watch import pipeline
from controlplane.watch.fleet import Ledger
from controlplane.watch.pipeline import Heard

OWNER = "replay"
FOREVER_S = timedelta(days=3650).total_seconds()
AT_ONCE = frozenset({"attempt.started", "attempt.exited", "command.result"})
"""Events whose rows the next decision needs."""
FLEET_AT_ONCE = frozenset({"node.hello", "command.result"})
FRESH = timedelta(seconds=5)
"""Age at which what is stored of nodes is renewed before anybody decides by it: a beat's period."""
SETTLED = timedelta(seconds=60)
"""Time after which incidents are settled although nothing came."""
MAX_WAITING = 20_000
"""Signals that may wait to be written."""
SIGNS = frozenset({"node.heartbeat", "node.health"})
"""Events of which only the newest of a node leaves a trace in the tables."""
CHANGES_NODES = frozenset({"attempt.started", "rank.started"})


def _hold(name: str, now: datetime, run: Run | None = None) -> Held:
    held = runs.lease_machine(name, OWNER, now, FOREVER_S, run=run)
    assert held is not None, "nobody else works on this database"  # noqa: S101
    return held


class FleetFollower:
    """The reducer of the fleet."""

    def __init__(self, now: datetime) -> None:
        """Begin with an empty fleet."""
        self._held = _hold(FLEET, now)
        self.reducer = FleetMachine()
        self._waiting: list[Signal] = []
        self._signs: dict[str, Signal] = {}
        self._judged: list[Finding] = []
        self._written = now
        self._ledger: Ledger | None = None
        self.news = False

    def hear(self, signals: Sequence[Signal], now: datetime) -> None:
        """Take in what belongs to no run."""
        mine = [signal for signal in signals if signal.run is None]
        fleet_watch.hear(self.reducer, mine, now)
        for signal in mine:
            if signal.kind in SIGNS:
                self._signs[signal.node] = signal
            else:
                self._waiting.append(signal)
                self.news |= signal.kind in FLEET_AT_ONCE
        self.news |= len(self._waiting) > MAX_WAITING

    def sweep(self, runs_followed: Iterable["RunFollower"], now: datetime) -> None:
        """Judge; whatever is found is news."""
        at = seconds(now)
        self.reducer.awake(at)
        views = [one.reducer for one in runs_followed]
        witness = fleet_watch.ask(self.reducer, lambda: [one.view(at) for one in views], now, read=self._read_ledger)
        self._judged += self.reducer.sweep(at, witness)
        self.news |= bool(self._judged)

    def _read_ledger(self, now: datetime) -> Ledger:
        """Read the tables once between two writes."""
        if self._ledger is None:
            self._ledger = fleet_watch.read_ledger(now)
        return self._ledger

    def forget(self) -> None:
        """Note that somebody may have written."""
        self._ledger = None

    def stale(self, now: datetime) -> bool:
        """Say whether rows of nodes are too old to be asked when they were last heard."""
        return now - self._written >= FRESH

    def write(self, now: datetime) -> list[Incident]:
        """Write everything that waits; return the incidents that moved."""
        signals, self._waiting = [*self._waiting, *self._signs.values()], []
        judged, self._judged = self._judged, []
        self._signs, self.news, self._written = {}, False, now
        with transaction.atomic():
            return fleet_watch.commit(self._held, self.reducer, signals, judged, cursor=0, now=now, keep=False)


class RunFollower:
    """The reducer of one run, and the attempts it knows."""

    def __init__(self, run: Run, now: datetime) -> None:
        """Begin before the first event."""
        self.run = run
        self._held = _hold(machine_name(run), now, run)
        self.reducer = RunMachine(run.name, run_queries.policy(run))
        run_queries.lend(run, self.reducer)
        self.attempts: list[Attempt] = []
        self._heard = Heard([])
        self._nodes: frozenset[str] = frozenset({run.launcher})
        self._written = now
        self._awaits = False
        self.news = False

    def hear(self, signals: Sequence[Signal], now: datetime) -> bool:
        """Take in what the run and its nodes said; say whether a runbook or an open incident may wait for it."""
        name, nodes = self.run.name, self._nodes
        said = [one for one in signals if one.run == name or (one.run is None and one.node in nodes)]
        if not said:
            return False
        heard = pipeline.hear(self.run, self.reducer, said, self.attempts, rested=self._heard.rested, now=now)
        self._heard.signals += [signal for signal in heard.signals if signal.kind not in SIGNS]
        self._heard.rested = heard.rested
        kinds = {signal.kind for signal in heard.signals}
        self.news |= bool(kinds & AT_ONCE) or len(self._heard.signals) > MAX_WAITING
        if kinds & CHANGES_NODES:
            self._nodes = frozenset({self.run.launcher, *self.reducer.nodes(), *self._newest_nodes()})
        awaited = "checkpoint" in kinds or ("rank.step" in kinds and self._awaited(heard.signals))
        self._awaits |= awaited
        return awaited

    def _awaited(self, signals: Sequence[Signal]) -> bool:
        """Say whether these steps hold the first of an attempt, or the first beyond all before it."""
        newest = self.attempts[0] if self.attempts else None
        if newest is None or newest.beyond_at is not None:
            return False
        steps = [whole(one.data.get("step")) or 0 for one in signals if one.kind == "rank.step"]
        return newest.first_step_at is None or max(steps, default=0) > newest.high_water_before

    def sweep(self, now: datetime) -> None:
        """Judge; whatever is found is news."""
        at = seconds(now)
        self.reducer.awake(at)
        self._heard.judged += self.reducer.sweep(at)
        self.news |= bool(self._heard.judged)

    def wants_write(self, now: datetime) -> bool:
        """Say whether rows may be wrong, or time alone may have closed something."""
        return self.news or self._awaits or now - self._written >= SETTLED

    def write(self, now: datetime) -> list[Incident]:
        """Write everything that waits; return the incidents that moved."""
        heard, self._heard = self._heard, Heard([], rested=self._heard.rested)
        self.news, self._awaits, self._written = False, False, now
        with transaction.atomic():
            pipeline.lock(self.run)
            changed = pipeline.commit(self.run, self._held, self.reducer, heard, cursor=0, now=now, keep=False)
        self.refresh()
        return changed

    def refresh(self) -> None:
        """Read what executions and people have changed meanwhile."""
        self.attempts = pipeline.newest_attempts(self.run)
        self._nodes = frozenset({self.run.launcher, *self.reducer.nodes(), *self._newest_nodes()})

    def rest(self, now: datetime) -> None:
        """Let the reducer know at once that we stop the attempt it watches."""
        quiet = pipeline.hear(self.run, self.reducer, [], self.attempts, rested=self._heard.rested, now=now)
        self._heard.rested = quiet.rested

    def _newest_nodes(self) -> list[str]:
        return self.attempts[0].nodes if self.attempts else []
