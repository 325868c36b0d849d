"""Play a trace: the virtual clock jumps from one moment at which something can happen to the next.

At each moment arrivals reach the reducers and the reducers are asked. Nothing is
written until something follows from it; then everything that waited is written, and
people, incidents, runbooks and agents have their turn, as live tasks would give it.
"""

import time
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import Min, QuerySet

from controlplane.domain.signals import Signal
from controlplane.fleet import actions as fleet
from controlplane.incidents.models import Incident, IncidentState
from controlplane.replay import report
from controlplane.replay.agents import Agents
from controlplane.replay.attempts import Numbers
from controlplane.replay.beats import Beats
from controlplane.replay.clock import BASE, BASE_S, at, t_of, t_of_seconds
from controlplane.replay.errors import TraceError
from controlplane.replay.expand import Arrival, Feed
from controlplane.replay.followers import OWNER, FleetFollower, RunFollower
from controlplane.replay.inbox import Inbox
from controlplane.replay.people import People
from controlplane.replay.stage import Stage
from controlplane.replay.trace import Trace
from controlplane.runbooks.models import Execution, ExecutionState, StepRun
from controlplane.runs.book import Book
from controlplane.watch import pipeline, results

GROUP_S = 0.5
"""Arrivals that are taken in together, as one live sweep would find them."""
IDLE_S = 30.0
"""Longest time between two looks."""
SOON_S = 0.5
POLL_S = 30.0
POLL_SHARE = 8.0
"""A runbook that polls is looked at after this part of the time that nothing was new, and then by its own times."""
ALONE_S = 5.0
"""Shortest time between two looks at an incident that no runbook works on."""
BEAT = "node.heartbeat"
PATIENCE_S = 600.0
"""Longest time between two looks at an incident about which nothing is new."""
PATIENCE_SHARE = 4.0
"""What is open is looked at after this part of the time that nothing was new."""
ENDED_BY_BEATS = frozenset({"node_lost", "correlated_loss", "telemetry_lost", "blind", "identity_conflict", "capacity"})
"""Classes of incident that a sign of life may end."""
PATIENT_STEPS = frozenset({"await_boundary", "await_progress"})
"""Steps that wait for what the trace brings, not for a time."""

Progress = Callable[[float, int], None]


class Player:
    """One replay of one trace, in a database that holds nothing else."""

    def __init__(
        self,
        trace: Trace,
        overrides: Mapping[str, Any],
        *,
        complain: Callable[[str], None],
        progress: Progress = lambda _t, _events: None,
        speed: float | None = None,
    ) -> None:
        """Build the world of the trace's header.

        Raises:
            TraceError: the header or a setting does not fit.
        """
        self._trace, self._progress, self._speed = trace, progress, speed
        self._feed = Feed(trace)
        self._stage = Stage(trace.header)
        self._stage.build(self._feed, overrides)
        self._inbox, self._numbers = Inbox(), Numbers()
        self._agents = Agents(self._feed)
        self._people = People(self._stage, self._feed, complain)
        self._fleet = FleetFollower(BASE)
        self._runs = {run.name: RunFollower(run, BASE) for run in self._stage.runs}
        self._beats = Beats()
        self._going = self._beats_count = False
        self._news_t = self._work_t = self._swept_t = 0.0
        self._timer: float | None = None

    def play(self) -> dict[str, Any]:
        """Play to the end of the trace and return the report.

        Raises:
            TraceError: a line does not fit.
        """
        t, began = 0.0, time.monotonic()
        while (following := self._next(t)) is not None:
            t, arrivals = following
            self._pace(t, began)
            self._round(t, arrivals)
            self._progress(t, self._inbox.events + self._beats.skipped)
        end_t = self._trace.ended_at or t
        self._write(at(end_t), everything=True)
        return report.report(self._trace.name, self._stage.runs, end_t)

    def _next(self, t: float) -> tuple[float, list[Arrival]] | None:
        """Give the next moment at which anything can happen and what arrives then, None after the end."""
        arrival, wake = self._feed.next_t(), self._wake(t)
        end_t = self._trace.ended_at
        if end_t is not None and min(wake, arrival if arrival is not None else wake) > end_t:
            return None
        if arrival is None or wake < arrival:
            return wake, []
        arrivals = self._feed.take(min(arrival + GROUP_S, wake))
        return (arrivals[-1].t if arrivals else arrival), arrivals

    def _wake(self, t: float) -> float:
        wake = min(self._timer if self._timer is not None else t + IDLE_S, t + IDLE_S)
        return max(wake, t + 0.001)

    def _pace(self, t: float, began: float) -> None:
        if self._speed:
            time.sleep(max(0.0, began + t / self._speed - time.monotonic()))

    def _round(self, t: float, arrivals: list[Arrival]) -> None:
        now = at(t)
        acts = [one for one in arrivals if one.operator is not None or one.answers is not None]
        if not acts and self._calm(t, arrivals):
            self._hear(self._beats.due(arrivals), now)
            return
        awaited = self._hear(self._fresh(t, arrivals), now)
        self._swept_t = t
        self._fleet.sweep(self._runs.values(), now)
        for run in self._runs.values():
            run.sweep(now)
        news = bool(acts) or self._fleet.news or any(run.news for run in self._runs.values())
        if news:
            self._news_t = t
        if news or (self._going and (awaited or t >= self._work_t)):
            self._act(acts, now)
            self._work_t = self._next_work(t)
        self._timer = self._next_timer(t)

    def _fresh(self, t: float, arrivals: list[Arrival]) -> list[Arrival]:
        """Give what is to be heard now; a step alone, while all is well, needs nobody's newest beat."""
        if self._going or self._due(t) or not all(_usual(one) for one in arrivals):
            return [*self._beats.newest(arrivals), *arrivals]
        beats = [one for one in arrivals if _is_beat(one)]
        return [*self._beats.due(beats), *(one for one in arrivals if not _is_beat(one))]

    def _due(self, t: float) -> bool:
        return (self._timer is not None and t >= self._timer) or t - self._swept_t >= IDLE_S

    def _calm(self, t: float, arrivals: list[Arrival]) -> bool:
        """Say whether all that came are beats without news, and nothing is open or due that they could change."""
        return not (self._beats_count or self._fleet.news or self._due(t)) and all(map(_is_beat, arrivals))

    def _hear(self, arrivals: list[Arrival], now: datetime) -> bool:
        """Take arrivals in; say whether something came that open work may wait for."""
        signals: list[Signal] = []
        for arrival in arrivals:
            if arrival.event is None and arrival.beat is None:
                continue
            run = self._runs.get(arrival.event.run or "") if arrival.event else None
            if run is not None:
                self._numbers.translate(arrival, run)
            signals += self._inbox.take(arrival)
        self._fleet.hear(signals, now)
        awaited = [run.hear(signals, now) for run in self._runs.values()]
        return any(awaited)

    def _act(self, acts: list[Arrival], now: datetime) -> None:
        """Write what waited, then give people, runbooks and agents their turn."""
        changed = self._write(now)
        for act in acts:
            self._people.act(act, now)
            wrong = self._agents.learn(act.answers) if act.answers else ""
            if wrong:
                raise TraceError(act.line, wrong)
        for name, run in self._runs.items():
            pipeline.follow_up(run.run, changed[name], OWNER, now)
            run.refresh()
            run.rest(now)
        self._expire(now)
        standing = set(Incident.objects.exclude(state=IncidentState.RESOLVED).values_list("klass", flat=True))
        self._going = bool(standing) or live().exists()
        self._beats_count = bool(standing & ENDED_BY_BEATS)
        self._agents.take_up()
        self._fleet.forget()

    def _write(self, now: datetime, *, everything: bool = False) -> dict[str, list[Incident]]:
        self._inbox.write()
        if everything or self._fleet.news or self._fleet.stale(now):
            self._fleet.write(now)
            self._stage.join_members()
        return {name: run.write(now) if everything or run.wants_write(now) else [] for name, run in self._runs.items()}

    def _expire(self, now: datetime) -> None:
        with transaction.atomic():
            book = Book(now)
            for command in fleet.expire_commands(now):
                results.ended(command, now, book)
            book.write()

    def _next_timer(self, t: float) -> float | None:
        """Give the earliest moment at which something could change by itself."""
        now_s = BASE_S + t
        moments = [self._fleet.reducer.due(now_s), *(run.reducer.due(now_s) for run in self._runs.values())]
        timers = [t_of_seconds(moment) for moment in moments if moment is not None]
        if self._going:
            timers.append(self._work_t)
        return min((timer for timer in timers if timer > t), default=None)

    def _next_work(self, t: float) -> float:
        """Give the moment at which runbooks or open incidents have to be looked at again though nothing comes."""
        timers = [t + PATIENCE_S]
        if self._going:
            patient = StepRun.objects.filter(finished_at=None, name__in=PATIENT_STEPS, execution__in=live())
            limit = patient.aggregate(first=Min("deadline"))["first"]
            timers += [max(t_of(limit) or 0.0, t + self._poll_s(t))] if limit is not None else []
            waits = live().exclude(pk__in=patient.values("execution")).aggregate(first=Min("wake_at"))["first"]
            timers += [max(t_of(waits) or 0.0, t + self._poll_s(t))] if waits is not None else []
            alone = Incident.objects.filter(state=IncidentState.OPEN).exclude(run__in=live().values("run"))
            timers += self._patience(t, list(alone.values_list("decision", flat=True)))
        return min(timer for timer in timers if timer > t)

    def _poll_s(self, t: float) -> float:
        """Give the shortest time until a waiting runbook is looked at again: longer, the longer nothing was new."""
        return min(POLL_S, max(SOON_S, (t - self._news_t) / POLL_SHARE))

    def _patience(self, t: float, decisions: list[dict[str, Any]]) -> list[float]:
        """Give the next looks at open incidents that no runbook works on: after their pause, and ever more rarely."""
        if not decisions:
            return []
        pauses = [decision.get("not_before") for decision in decisions]
        timers = [t_of_seconds(pause) for pause in pauses if isinstance(pause, int | float)]
        return [*timers, t + max(ALONE_S, (t - self._news_t) / PATIENCE_SHARE)]


def _is_beat(arrival: Arrival) -> bool:
    return arrival.beat is not None and arrival.beat[0] == BEAT


def _usual(arrival: Arrival) -> bool:
    """Say whether it is what a run that is well sends all the time."""
    return arrival.beat is not None or (arrival.event is not None and arrival.event.kind == "rank.step")


def live() -> QuerySet[Execution]:
    """Give the executions that go on by themselves."""
    return Execution.objects.filter(state__in=(ExecutionState.RUNNING, ExecutionState.WAITING))
