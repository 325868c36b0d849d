"""Write down what people did in a window, as the `operator` lines of a trace say it.

Chronicle, ledger, silences and answers to questions are asked; what a runbook did in
somebody's name is left out, because a replay decides anew about runbooks.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from controlplane.chronicle.models import Entry
from controlplane.incidents.models import Incident, Silence
from controlplane.quarantine.models import LedgerEntry
from controlplane.runbooks.models import Approval
from controlplane.runs.actions import STOPPED
from controlplane.runs.cancelled import SIGNED
from controlplane.runs.models import Run

PERSON = "person"
LEFT_OUT = "left out"
"""Stands for what a person wrote, where names are taken out."""
DRILL = "drill "
_ABOUT_RUN = {"hold": "hold_run", "resume": "resume_run", "launch": "launch_run", STOPPED: "stop_run"}
_ABOUT_NODE = {"hold": "hold_node", "resume": "release_node"}
_ABOUT_INCIDENT = {"acknowledge": "acknowledge", "note": "note"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """What is asked for: acts about `run` and `nodes` in [since, until]; without `words` nobody's own text."""

    run: Run
    nodes: Collection[str]
    since: datetime
    until: datetime
    words: bool = True

    @property
    def times(self) -> tuple[datetime, datetime]:
        """Both ends."""
        return self.since, self.until

    def text(self, said: str) -> str:
        """Give what a person wrote, as far as it may be recorded."""
        return said if self.words else LEFT_OUT


Act = tuple[datetime, dict[str, Any]]


def acts(window: Window) -> list[Act]:
    """Give every act with its moment, in order of time."""
    found = [*_of_run(window), *_of_nodes(window), *_of_incidents(window), *_silences(window), *_answers(window)]
    return sorted(found, key=lambda act: act[0])


def _told(window: Window, *streams: str) -> Iterator[Entry]:
    """Give what people did according to these chronicles, in the order in which it was written."""
    found = Entry.objects.filter(stream__name__in=streams, actor_kind=PERSON, recorded_at__range=window.times)
    found = found.order_by("recorded_at", "pk").select_related("stream")
    return (entry for entry in found if not _is_execution(entry.actor))


def _is_execution(name: str) -> bool:
    """Say whether a runbook acted under this name."""
    return SIGNED in name or name.startswith(DRILL)


def _of_run(window: Window) -> Iterator[Act]:
    for entry in _told(window, f"run:{window.run.name}"):
        do = _ABOUT_RUN.get(entry.data.get("did", entry.kind))
        if do is not None and "incident" not in entry.data:
            yield entry.recorded_at, {"name": entry.actor, "do": do, "run": window.run.name}


def _of_nodes(window: Window) -> Iterator[Act]:
    for entry in _told(window, "fleet"):
        do, node = _ABOUT_NODE.get(entry.kind), entry.data.get("node")
        if do is not None and node in window.nodes:
            yield entry.recorded_at, {"name": entry.actor, "do": do, "node": node}
    moves = LedgerEntry.objects.filter(actor_kind=PERSON, node__name__in=window.nodes, at__range=window.times)
    for move in moves.select_related("node").order_by("at", "pk"):
        do = {move.to_state: "cordon", move.from_state: "release_node"}.get("quarantined")
        if do is not None and move.from_state != move.to_state:
            told = {"name": move.actor, "do": do, "node": move.node.name, "text": window.text(move.reason)}
            yield move.at, told


def _of_incidents(window: Window) -> Iterator[Act]:
    known = {f"incident:{one.pk}": one for one in Incident.objects.filter(run=window.run, opened_at__lte=window.until)}
    for entry in _told(window, *known):
        do = _ABOUT_INCIDENT.get(entry.kind)
        if do is not None:
            told = {
                "name": entry.actor,
                "do": do,
                **_named(known[entry.stream.name], known.values(), entry.recorded_at),
            }
            yield entry.recorded_at, {**told, "text": window.text(entry.sentence)} if do == "note" else told


def _named(incident: Incident, known: Collection[Incident], at: datetime) -> dict[str, Any]:
    """Name an incident: the run's only one that was not resolved, or of several by its class."""
    going = [one for one in known if one.opened_at <= at and (one.resolved_at is None or one.resolved_at > at)]
    about = {"run": incident.run.name if incident.run else ""}
    return about if going == [incident] else {**about, "incident": incident.klass}


def _silences(window: Window) -> Iterator[Act]:
    for one in Silence.objects.filter(begins_at__range=window.times).order_by("begins_at", "pk"):
        if one.run_id in (None, window.run.pk) and not _is_execution(one.by):
            minutes = round((one.until - one.begins_at).total_seconds() / 60, 3)
            about = {"run": window.run.name} if one.run_id else {}
            yield one.begins_at, {"name": one.by, "do": "silence", "minutes": minutes, **about}


def _answers(window: Window) -> Iterator[Act]:
    asked = Approval.objects.filter(execution__run=window.run, asked_at__lte=window.until)
    for question in asked.exclude(answers=[]).order_by("pk"):
        for answer in question.answers:
            at = datetime.fromisoformat(answer["at"])
            if window.since <= at <= window.until:
                do = "reject" if answer["said"] == "no" else "approve"
                told = {"name": answer["who"], "do": do, "run": window.run.name}
                yield at, {**told, "text": window.text(answer.get("why", ""))} if answer.get("why") else told
