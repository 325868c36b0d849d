"""What schedulers said last of their nodes and jobs, as pages and the reconciliation read it.

Only an agent that launches may speak for a scheduler. Each state is repeated every
minute, so a row that is not repeated any more grows old and counts as unknown.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from controlplane.domain.fleet.scheduling import CLOSED, DRAINED, OLD_AFTER_S, Word
from controlplane.domain.signals import Signal
from controlplane.fleet.models import Node, SchedulerJob, SchedulerNode

MAX_NAME = 100
MAX_WORD = 32
MAX_REASON = 1_000
MAX_NODES = 10_000
MAX_JOBS = 200
"""Jobs of one run that are kept; the one heard longest ago makes room."""
WRITTEN = ("state", "reason", "owner", "since", "heard_at", "at_ms")
FORGET_AFTER = timedelta(days=7)
OVER = frozenset({"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "OUT_OF_MEMORY"})


def note_nodes(signals: Iterable[Signal]) -> list[SchedulerNode]:
    """Take down the newest word on each node; returns the rows whose state or reason changed."""
    told = [signal for signal in signals if signal.kind == "scheduler.node" and _text(signal.data, "node")]
    newest = {(signal.node, _text(signal.data, "node")): signal for signal in _of_launchers(told)}
    known = {
        (row.launcher, row.name): row
        for row in SchedulerNode.objects.filter(launcher__in={launcher for launcher, _ in newest})
    }
    rows = {place: known.get(place) or _new(*place, signal) for place, signal in newest.items()}
    changed = [row for place, row in rows.items() if _take(row, newest[place])]
    SchedulerNode.objects.bulk_update([row for row in rows.values() if row.pk], WRITTEN, batch_size=500)
    SchedulerNode.objects.bulk_create([row for row in rows.values() if not row.pk])
    return changed


def _of_launchers(signals: Sequence[Signal]) -> list[Signal]:
    """Leave out what others say, and order the rest by the launchers' clocks."""
    if not signals:
        return []
    speakers = Node.objects.filter(name__in={signal.node for signal in signals}, head=True)
    heads = set(speakers.values_list("name", flat=True))
    return sorted((signal for signal in signals if signal.node in heads), key=lambda signal: signal.said_ms)


def _new(launcher: str, name: str, signal: Signal) -> SchedulerNode:
    received = _received(signal)
    return SchedulerNode(launcher=launcher, name=name, since=received, heard_at=received, at_ms=-1)


def _take(row: SchedulerNode, signal: Signal) -> bool:
    """Write a word into its row; say whether it tells something new."""
    if signal.said_ms < row.at_ms:
        return False
    state, reason = _text(signal.data, "state", MAX_WORD).lower(), _text(signal.data, "reason", MAX_REASON)
    changed = (state, reason) != (row.state, row.reason)
    if changed and not ({state, row.state} <= DRAINED and reason == row.reason):
        row.since = _received(signal)
    row.state, row.reason, row.owner = state, reason, _text(signal.data, "owner")
    row.heard_at, row.at_ms = _received(signal), signal.said_ms
    return changed


def note_jobs(run: str, signals: Iterable[Signal]) -> list[SchedulerJob]:
    """Take down the newest word on each job of a run; returns the rows whose state changed.

    Part of the sweep's transaction, which has locked the run.
    """
    told = [signal for signal in signals if signal.kind == "scheduler.job" and signal.run == run]
    changed = []
    for signal in _of_launchers([signal for signal in told if _text(signal.data, "job_id")]):
        row, moved = _job(run, signal)
        changed += [row] if moved else []
    if changed:
        _make_room(run)
    return changed


def _job(run: str, signal: Signal) -> tuple[SchedulerJob, bool]:
    data, received = signal.data, _received(signal)
    place = {"launcher": signal.node, "job_id": _text(data, "job_id")}
    row = SchedulerJob.objects.filter(**place).first() or SchedulerJob(**place, run=run, since=received, at_ms=-1)
    if signal.said_ms < row.at_ms or row.run != run:
        return row, False
    state = _text(data, "state", MAX_WORD).upper()
    moved = state != row.state
    row.since, row.state, row.heard_at, row.at_ms = received if moved else row.since, state, received, signal.said_ms
    row.attempt = signal.attempt if signal.attempt is not None else row.attempt
    row.reason, row.by = _text(data, "reason", MAX_REASON), _text(data, "by")
    row.nodes, row.successors = _names(data) or row.nodes, _count(data, row.successors)
    row.save()
    return row, moved


def _make_room(run: str) -> None:
    kept = SchedulerJob.objects.filter(run=run).order_by("-heard_at").values_list("pk", flat=True)[:MAX_JOBS]
    SchedulerJob.objects.filter(run=run).exclude(pk__in=list(kept)).delete()


def forget_old(now: datetime) -> int:
    """Drop what no scheduler has repeated for a week; returns how many rows."""
    silent = now - FORGET_AFTER
    nodes, _ = SchedulerNode.objects.filter(heard_at__lt=silent).delete()
    jobs, _ = SchedulerJob.objects.filter(heard_at__lt=silent).delete()
    return nodes + jobs


def words(names: Iterable[str] | None = None) -> list[SchedulerNode]:
    """Return the last words on nodes, of these or of all, by name."""
    rows = SchedulerNode.objects.order_by("name", "launcher")
    return list(rows if names is None else rows.filter(name__in=list(names)))


def word(row: SchedulerNode) -> Word:
    """Return a row as the domain reads it."""
    return Word(
        state=row.state, reason=row.reason, owner=row.owner,
        since=row.since.timestamp(), heard_at=row.heard_at.timestamp(),
    )  # fmt: skip


def closed(launcher: str, now: datetime) -> dict[str, str]:
    """Map the nodes on which a launcher's scheduler places nothing now to the reason, as far as that is known."""
    fresh = now - timedelta(seconds=OLD_AFTER_S)
    rows = SchedulerNode.objects.filter(launcher=launcher, state__in=CLOSED, heard_at__gte=fresh)
    return {row.name: f"{word(row).by_whom} at the scheduler" for row in rows}


def jobs(run: str, *, limit: int = 20) -> list[SchedulerJob]:
    """Return the jobs of a run, those that are not over first, the newest word first."""
    rows = list(SchedulerJob.objects.filter(run=run).order_by("-heard_at")[:MAX_JOBS])
    return sorted(rows, key=lambda row: row.state in OVER)[:limit]


def _received(signal: Signal) -> datetime:
    return datetime.fromtimestamp(signal.received, UTC)


def _text(data: Mapping[str, Any], name: str, most: int = MAX_NAME) -> str:
    return str(data.get(name) or "")[:most]


def _names(data: Mapping[str, Any]) -> list[str]:
    named = data.get("nodes")
    return [str(name)[:MAX_NAME] for name in named[:MAX_NODES]] if isinstance(named, list) else []


def _count(data: Mapping[str, Any], known: int | None) -> int | None:
    told = data.get("successors")
    if isinstance(told, list):
        return len(told)
    return told if isinstance(told, int) and not isinstance(told, bool) and 0 <= told <= MAX_NODES else known
