"""Write a trace from what is stored, so that any past night can be replayed.

The trace begins in the middle of things: what was known at its zero (who the nodes are,
which attempt ran with which ranks, which checkpoints were there) is written as if it arrived then.
"""

import heapq
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from controlplane.checkpoints.models import Checkpoint, CheckpointState
from controlplane.domain.errors import Invalid, Refused
from controlplane.events import history
from controlplane.events import queries as events
from controlplane.events.queries import StoredEvent
from controlplane.fleet import queries as fleet
from controlplane.fleet.models import Node
from controlplane.replay import record_people
from controlplane.replay.pseudonyms import Pseudonyms
from controlplane.replay.trace import VERSION
from controlplane.runs.models import Attempt, Mode, Run

PAGE = 10_000
MODES = {Mode.AUTOPILOT: "act", Mode.ASK: "propose", Mode.WATCH: "observe"}
LEFT_OUT = frozenset({"command.result"})
"""A replay answers its own commands."""
INSIDE = ("begins_at_ms", "ends_at_ms")


@dataclass(frozen=True, slots=True)
class Recording:
    """What was written; `acts` are what people did."""

    events: int
    nodes: int
    acts: int = 0


@dataclass(slots=True)
class _Recorder:
    run: Run
    since: datetime
    until: datetime
    lives: dict[str, str] = field(default_factory=dict)

    def line(self, event: StoredEvent, t: float) -> dict[str, Any]:
        """Write one event as a line of the trace."""
        zero = round(self.since.timestamp() * 1000)
        data = dict(event.data)
        for name in INSIDE:
            if isinstance(data.get(name), int):
                data[name] -= zero
        said: dict[str, Any] = {"at_ms": event.at_ms - zero, "kind": event.kind}
        for name in ("run", "attempt", "rank"):
            if getattr(event, name) is not None:
                said[name] = getattr(event, name)
        told: dict[str, Any] = {"t": round(t, 3), "node": event.node, "event": {**said, "data": data}}
        first = self.lives.setdefault(event.node, event.incarnation)
        if event.incarnation != first:
            told["incarnation"] = event.incarnation
        return told


def record(
    run: Run, since: datetime, until: datetime, path: Path, *, pseudonyms: bool = False, most: int | None = None
) -> Recording:
    """Write [since, until] of `run` to `path`.

    Raises:
        Invalid: the window is empty, or nothing of the run lies before its end.
        Refused: there are more than `most` events.
        OSError: the file cannot be written.
    """
    if since >= until:
        raise Invalid("since", "must be before until")
    nodes = _nodes(run, until)
    known = [node.name for node in nodes]
    acts = record_people.acts(
        record_people.Window(run=run, nodes=known, since=since, until=until, words=not pseudonyms)
    )
    names = Pseudonyms(known, [run.name], [act["name"] for _, act in acts]) if pseudonyms else None
    recorder = _Recorder(run, since, until)
    written = 0
    with path.open("w", encoding="utf-8") as file:
        for line in _lines(recorder, nodes, acts, path):
            file.write(json.dumps(names.of(line) if names else line, ensure_ascii=False, separators=(",", ":")) + "\n")
            written += "event" in line
            if most is not None and written > most:
                raise Refused(f"more than {most:,} events were recorded in that time")
    return Recording(events=written, nodes=len(nodes), acts=len(acts))


def _lines(
    recorder: _Recorder, nodes: list[Node], acts: list[record_people.Act], path: Path
) -> Iterator[dict[str, Any]]:
    yield _header(recorder, nodes, path)
    names = [node.name for node in nodes]
    first = history.id_before(recorder.since)
    for event in _before(recorder, first, names):
        yield recorder.line(event, 0.0)
    yield from _saved(recorder)
    yield from heapq.merge(_said(recorder, first, names), _done(recorder, acts), key=lambda line: float(line["t"]))
    yield {"t": round((recorder.until - recorder.since).total_seconds(), 3), "end": True}


def _said(recorder: _Recorder, first: int, names: list[str]) -> Iterator[dict[str, Any]]:
    t = 0.0
    for event in _between(recorder, first, names):
        t = max(t, (event.received_at - recorder.since).total_seconds())
        yield recorder.line(event, t)


def _done(recorder: _Recorder, acts: list[record_people.Act]) -> Iterator[dict[str, Any]]:
    for at, act in acts:
        yield {"t": round((at - recorder.since).total_seconds(), 3), "operator": act}


def _nodes(run: Run, until: datetime) -> list[Node]:
    """Give the launcher, every member of an attempt, and the spares."""
    attempts = Attempt.objects.filter(run=run, started_at__lte=until)
    wanted = {run.launcher, *(name for attempt in attempts for name in attempt.nodes)}
    wanted |= {node.name for node in fleet.spares()}
    return fleet.nodes_for(wanted)


def _header(recorder: _Recorder, nodes: list[Node], path: Path) -> dict[str, Any]:
    run = recorder.run
    current = _current(recorder)
    members = list(current.nodes) if current else []
    spares = [node.name for node in nodes if node.name not in members and node.name != run.launcher]
    policy: Mapping[str, Any] = run.policy
    spec: dict[str, Any] = {
        "name": run.name, "world_size": current.world_size if current else 0,
        "nodes": members or [node.name for node in nodes if node.name != run.launcher][: run.nodes_wanted],
        "gpus_per_node": run.gpus_per_node, "launcher": run.launcher, "priorities": {},
    }  # fmt: skip
    spec["spares"] = [name for name in spares if name not in spec["nodes"]]
    return {
        "trace": VERSION, "name": path.name.removesuffix(".trace.jsonl").removesuffix(".jsonl"), "runs": [spec],
        "nodes": [{"name": node.name, "labels": _labels(node), "gpus": _gpus(node)} for node in nodes],
        "policy": {"mode": MODES[Mode(run.mode)], **policy},
    }  # fmt: skip


def _labels(node: Node) -> dict[str, str]:
    return {str(name): str(value) for name, value in node.labels.items()}


def _gpus(node: Node) -> list[str]:
    found = node.hardware.get("gpus")
    return [str(gpu.get("uuid")) for gpu in found if isinstance(gpu, dict)] if isinstance(found, list) else []


def _current(recorder: _Recorder) -> Attempt | None:
    """Give the attempt that ran at the beginning, else the first one after it."""
    attempts = Attempt.objects.filter(run=recorder.run, started_at__lte=recorder.until)
    before = attempts.filter(started_at__lte=recorder.since).order_by("-number").first()
    return before or attempts.order_by("number").first()


def _before(recorder: _Recorder, first: int, names: list[str]) -> Iterator[StoredEvent]:
    """Give what was said before the beginning and still counts: hellos, and how the running attempt began."""
    for name in names:
        hello = history.newest("node.hello", node=name, upto=first)
        if hello is not None:
            yield hello
    current = _current(recorder)
    if current is None or current.started_at > recorder.since:
        return
    for kind in ("attempt.started", "rank.started"):
        yield from history.of_attempt(kind, recorder.run.name, current.number, upto=first)


def _saved(recorder: _Recorder) -> Iterator[dict[str, Any]]:
    """Give the checkpoints that were complete at the beginning, oldest first."""
    rows = Checkpoint.objects.filter(run=recorder.run, completed_at__lte=recorder.since)
    for row in rows.exclude(state=CheckpointState.DELETED).order_by("step", "pk"):
        data = {"step": row.step, "tier": row.tier, "path": row.path, "state": row.state, "bytes": row.bytes,
                "files": row.files, "expected_files": row.expected_files}  # fmt: skip
        said = {name: value for name, value in data.items() if value is not None}
        event = {"at_ms": 0, "kind": "checkpoint", "run": recorder.run.name, "attempt": row.attempt or 1, "data": said}
        yield {"t": 0.0, "node": recorder.run.launcher, "event": event}


def _between(recorder: _Recorder, first: int, names: list[str]) -> Iterator[StoredEvent]:
    cursor = first
    while True:
        page = events.since(cursor, run=recorder.run.name, nodes=names, limit=PAGE)
        for event in page:
            if event.received_at > recorder.until:
                return
            if event.kind not in LEFT_OUT and event.node in names:
                yield event
        if len(page) < PAGE:
            return
        cursor = page[-1].id
