"""Let the people of a trace do what they did, by the same actions as live."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import msgspec

from controlplane.chronicle import actions as chronicle
from controlplane.domain.errors import MiddlewatchError, NotFound
from controlplane.fleet import actions as fleet
from controlplane.fleet import queries as fleet_queries
from controlplane.incidents import actions as incidents
from controlplane.incidents.models import Incident
from controlplane.quarantine import actions as quarantine
from controlplane.replay.clock import t_of
from controlplane.replay.errors import TraceError
from controlplane.replay.expand import Arrival, Feed
from controlplane.replay.stage import Stage
from controlplane.replay.trace import EventLine, Operator
from controlplane.runbooks import actions as runbooks
from controlplane.runbooks.models import Execution, ExecutionState
from controlplane.runs import actions as runs
from controlplane.runs import queries as run_queries

PERSON = "person"
DAY = timedelta(days=1)
SILENCE_MIN = 60.0
"""How long a silence lasts whose line names no time."""


class People:
    """Carries out the `operator` lines; an act that is refused is told and changes nothing."""

    def __init__(self, stage: Stage, feed: Feed, complain: Callable[[str], None]) -> None:
        """Act on the world of `stage`; `complain` is told what was refused."""
        self._stage, self._feed, self._complain = stage, feed, complain
        self._acts: dict[str, Callable[[Operator, datetime], None]] = {
            "hold_node": lambda said, now: _hold_node(said, now, held=True),
            "release_node": _release_node,
            "cordon": _cordon,
            "acknowledge": lambda said, now: incidents.acknowledge(_incident(said), said.name, now),
            "note": lambda said, now: incidents.note(_incident(said), said.text, said.name, now),
            "silence": _silence,
            "approve": lambda said, now: runbooks.approve(_proposal(said), said.name, now),
            "reject": lambda said, now: runbooks.reject(_proposal(said), said.name, now, said.text),
            "hold_run": lambda said, now: runs.hold(run_queries.run_named(said.run or ""), said.name, now),
            "resume_run": lambda said, now: runs.resume(run_queries.run_named(said.run or ""), said.name, now),
            "stop_run": lambda said, now: runs.stop(run_queries.run_named(said.run or ""), said.name, now),
            "launch_run": _launch_run,
            "maintenance_begin": self._maintenance_begins,
            "maintenance_end": self._maintenance_ends,
        }

    def act(self, arrival: Arrival, now: datetime) -> None:
        """Do what one line says.

        Raises:
            TraceError: nobody knows such an act.
        """
        said = arrival.operator
        if said is None:
            return
        act = self._acts.get(said.do)
        if act is None:
            raise TraceError(arrival.line, f"operator.do must be one of {', '.join(sorted(self._acts))}")
        try:
            act(said, now)
        except MiddlewatchError as error:
            self._complain(f"line {arrival.line}: {said.name} could not {said.do.replace('_', ' ')}: {error}")

    def _maintenance_begins(self, said: Operator, now: datetime) -> None:
        self._notice(said, now, now + (timedelta(minutes=said.minutes) if said.minutes else DAY))

    def _maintenance_ends(self, said: Operator, now: datetime) -> None:
        self._notice(said, now, now)

    def _notice(self, said: Operator, now: datetime, until: datetime) -> None:
        """Say it as an adapter would, through the launcher of the run, or of each."""
        wanted = [spec for spec in self._stage.header.runs if said.run in (None, spec.name)]
        for spec in wanted:
            nodes = [said.node] if said.node else [*spec.nodes, *spec.spares]
            self._feed.push(_notice(self._stage.launchers[spec.name], nodes, now, until))


def _notice(node: str, nodes: list[str], now: datetime, until: datetime) -> Arrival:
    begins, ends = t_of(now) or 0.0, t_of(until) or 0.0
    data: dict[str, Any] = {
        "what": "maintenance", "nodes": nodes, "begins_at_ms": round(begins * 1000), "ends_at_ms": round(ends * 1000),
    }  # fmt: skip
    raw = msgspec.Raw(msgspec.json.encode(data))
    return Arrival(begins, 0, node, event=EventLine(at_ms=round(begins * 1000), kind="capacity.notice", data=raw))


def _hold_node(said: Operator, now: datetime, *, held: bool) -> None:
    name = said.node or ""
    fleet.hold_node(name, held=held)
    told = f"{said.name} put a hold on node {name}." if held else f"{said.name} lifted the hold on node {name}."
    kind = "hold" if held else "resume"
    chronicle.tell(
        "fleet", kind, told, at=now, now=now, actor_kind=PERSON, actor=said.name, data={"node": name}
    )  # fmt: skip


def _release_node(said: Operator, now: datetime) -> None:
    """Lift a hold where there is one, else let the node out of quarantine."""
    if fleet_queries.node(said.node or "").held:
        _hold_node(said, now, held=False)
    else:
        quarantine.release(said.node or "", by=said.name, now=now, reason=said.text)


def _cordon(said: Operator, now: datetime) -> None:
    reason = said.text or f"cordoned by {said.name}"
    quarantine.quarantine(said.node or "", reason, actor_kind=PERSON, actor=said.name, now=now)


def _launch_run(said: Operator, now: datetime) -> None:
    """Launch on nodes that are free; which ones they were the trace's next attempt says."""
    runbooks.launch(run_queries.run_named(said.run or ""), None, said.name, now)


def _silence(said: Operator, now: datetime) -> None:
    """Wake nobody about the run named, or the run of the incident named, or about anything."""
    run = run_queries.run_named(said.run) if said.run else None
    if run is None and said.incident is not None:
        run = _incident(said).run
    incidents.silence(run, said.minutes or SILENCE_MIN, said.name, now)


def _incident(said: Operator) -> Incident:
    """Find the incident by its place in the report, its class, or as the newest that is not resolved."""
    found = Incident.objects.select_related("run").order_by("opened_at", "pk")
    if said.run:
        found = found.filter(run__name=said.run)
    if isinstance(said.incident, int):
        wanted = list(found[said.incident : said.incident + 1]) if said.incident >= 0 else []
    elif said.incident:
        wanted = list(found.filter(klass=said.incident).reverse()[:1])
    else:
        wanted = list(found.exclude(state="resolved").reverse()[:1])
    if not wanted:
        raise NotFound("there is no such incident")
    return wanted[0]


def _proposal(said: Operator) -> Execution:
    waiting = Execution.objects.filter(state=ExecutionState.PROPOSED).order_by("-pk")
    if said.incident is not None:
        waiting = waiting.filter(incident=_incident(said))
    elif said.run:
        waiting = waiting.filter(run__name=said.run)
    found = waiting.first()
    if found is None:
        raise NotFound("nothing is proposed")
    return found
