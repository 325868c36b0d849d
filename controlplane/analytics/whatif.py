"""What the detectors would have said of a past week under other settings.

A threshold that is changed by feeling is found out at night. The events of the week are
fed once more through the same reducer, once with the settings as they are and once as
they would be; nothing is stored and nothing acts. Incidents, runbooks and guards are
the replay's business; this answers only what would have been found, and when.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import groupby

from controlplane.domain.detection.policy import RunPolicy
from controlplane.domain.detection.run import RunMachine
from controlplane.domain.findings import Finding, Stage
from controlplane.domain.signals import Signal
from controlplane.events import queries as events
from controlplane.runs.models import Attempt, Run
from controlplane.runs.times import seconds

WINDOW = timedelta(days=7)
MAX_EVENTS = 100_000
"""Events that one comparison reads; a busier week is judged by its newest part, and the page says so."""
MAX_DUE = 1_000
"""Sweeps between two events: a rule that is always due must not keep us here."""
BEATS = frozenset({"node.heartbeat", "node.health"})
BEAT_SWEEP_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What became of one finding; times in seconds since the epoch, None for never."""

    key: str
    detector: str
    klass: str
    attempt: int | None
    sentence: str
    mode: str
    suspected_at: float | None = None
    confirmed_at: float | None = None
    cleared_at: float | None = None

    @property
    def at(self) -> float:
        """Give when it was first told."""
        return min(moment for moment in (self.suspected_at, self.confirmed_at, self.cleared_at) if moment is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The verdicts `now`, as the settings are, and `then`, as they would be, over [begin, end)."""

    begin: datetime
    end: datetime
    events: int
    cut: bool
    now: Sequence[Verdict]
    then: Sequence[Verdict]


def compare(run: Run, overrides: Mapping[str, object], at: datetime) -> Comparison:
    """Judge the week before `at` by the run's settings and by `overrides`; raises `Invalid` for a wrong one."""
    changed, present = RunPolicy.from_overrides(overrides), RunPolicy.from_overrides(run.policy)
    attempts = list(Attempt.objects.filter(run=run))
    nodes = sorted({run.launcher, *(node for attempt in attempts for node in attempt.nodes)})
    found = events.newest(run.name, nodes, since=at - WINDOW, limit=MAX_EVENTS)
    signals = [event.signal() for event in found]
    stops = {item.number: seconds(item.stopping_at) for item in attempts if item.stopping_at}
    cut = len(found) == MAX_EVENTS
    return Comparison(
        begin=found[0].received_at if cut else at - WINDOW,
        end=at,
        events=len(found),
        cut=cut,
        now=verdicts(run.name, signals, present, stops, until=seconds(at)),
        then=verdicts(run.name, signals, changed, stops, until=seconds(at)),
    )


def verdicts(
    run: str, signals: Sequence[Signal], policy: RunPolicy, stops: Mapping[int, float], *, until: float
) -> list[Verdict]:
    """Feed `signals`, in order of arrival, to a new reducer; `stops` says when we ended which attempt ourselves."""
    machine, told = RunMachine(run, policy), dict[str, Verdict]()
    swept = now = signals[0].received if signals else until
    for second, group in groupby(signals, key=lambda signal: int(signal.received)):
        together = list(group)
        now = _wait(machine, now, float(second), told)
        _rest(machine, stops, now)
        for signal in together:
            machine.observe(signal, signal.received)
        now = max(now, together[-1].received)
        if now - swept >= BEAT_SWEEP_S or any(signal.kind not in BEATS for signal in together):
            _note(told, _sweep(machine, now))
            swept = now
    _wait(machine, now, until, told)
    return sorted(told.values(), key=lambda verdict: (verdict.at, verdict.key))


def _wait(machine: RunMachine, now: float, until: float, told: dict[str, Verdict]) -> float:
    """Let time pass to `until`, sweeping whenever a verdict could change by itself."""
    for _ in range(MAX_DUE):
        due = machine.due(now)
        if due is None or due >= until:
            break
        now = due
        _note(told, _sweep(machine, now))
    return max(now, until)


def _sweep(machine: RunMachine, now: float) -> list[Finding]:
    machine.awake(now)
    return machine.sweep(now)


def _rest(machine: RunMachine, stops: Mapping[int, float], now: float) -> None:
    attempt = machine.view(now).attempt
    if attempt is not None and stops.get(attempt, now + 1) <= now:
        machine.rest(now)


def _note(told: dict[str, Verdict], found: Iterable[Finding]) -> None:
    for item in found:
        known = told.get(item.key) or Verdict(
            key=item.key, detector=item.detector, klass=item.klass, attempt=item.attempt,
            sentence=item.sentence, mode=item.mode,
        )  # fmt: skip
        told[item.key] = _moved(known, item)


def _moved(known: Verdict, item: Finding) -> Verdict:
    if item.stage is Stage.CLEARED:
        return replace(known, cleared_at=known.cleared_at or item.at)
    changed = replace(known, klass=item.klass, sentence=item.sentence)
    if item.stage is Stage.CONFIRMED:
        return replace(changed, confirmed_at=known.confirmed_at or item.at)
    return replace(changed, suspected_at=known.suspected_at or item.at)
