"""Keep the checkpoint ledger: from what hooks report and from what a scan of the disk finds.

A report says what a rank believes; the scan says what lies on the disk. The scan
wins, and a late report never takes a proven checkpoint back to "saving".
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from controlplane.checkpoints.models import Checkpoint, CheckpointState
from controlplane.domain.checkpoints.restore import RESTORABLE
from controlplane.domain.signals import Signal
from controlplane.live import actions as live
from controlplane.runs.book import Book
from controlplane.runs.models import Run
from controlplane.runs.projection import whole
from controlplane.runs.times import moment

PERSISTENT = "persistent"
MAX_PATH = 4_096
MAX_WHY = 1_000
MAX_FILES = 2**31 - 1
MAX_FOUND = 1_000
MAX_DURATION_MS = 7 * 86_400_000.0

_STATES = frozenset(CheckpointState.values)
_RANK: dict[str, int] = {CheckpointState.SAVING: 0, CheckpointState.WRITTEN: 1, CheckpointState.COMPLETE: 2,
                         CheckpointState.VERIFIED: 3, CheckpointState.PINNED: 4}  # fmt: skip
_AGAINST = frozenset({CheckpointState.TORN, CheckpointState.FAILED, CheckpointState.DELETED})
_SCANNED = frozenset({CheckpointState.COMPLETE, CheckpointState.VERIFIED, CheckpointState.TORN})


def apply(run: Run, signals: Sequence[Signal], book: Book) -> list[Checkpoint]:
    """Write what `checkpoint` signals say; return those that are complete since now.

    Part of the caller's transaction; applying the same signals twice changes nothing.
    """
    complete = []
    for signal in signals:
        if signal.kind != "checkpoint" or signal.run != run.name:
            continue
        checkpoint = _report(run, signal, book)
        if checkpoint is not None and checkpoint.state == CheckpointState.COMPLETE:
            complete.append(checkpoint)
    if complete:
        live.touch(f"run:{run.name}", urgent=False)
    return complete


def _report(run: Run, signal: Signal, book: Book) -> Checkpoint | None:
    """Write one report; return the row when its state moved."""
    step, state = whole(signal.data.get("step")), signal.data.get("state")
    if step is None or state not in _STATES:
        return None
    if state == CheckpointState.RESTORED:
        _restored(run, step, signal, book)
        return None
    row = _row(run, str(signal.data.get("tier", PERSISTENT))[:16], step, str(signal.data.get("path", ""))[:MAX_PATH])
    if row.pk is not None and not _may_follow(row.state, state):
        return None
    row.state, row.attempt = state, signal.attempt or row.attempt
    _measure(row, signal.data)
    _stamp(row, moment(signal.received))
    row.save()
    return row


def _row(run: Run, tier: str, step: int, path: str) -> Checkpoint:
    """Return the row of this step and tier, new and unsaved when there is none."""
    known = Checkpoint.objects.filter(run=run, tier=tier, step=step)
    row = known.filter(path=path).first() or known.first()
    return row or Checkpoint(run=run, tier=tier, step=step, path=path, state=CheckpointState.SAVING)


def _may_follow(old: str, new: str) -> bool:
    if old == CheckpointState.SAVING or new in _AGAINST:
        return old != new
    if old in _AGAINST:
        return new == CheckpointState.SAVING  # the same step is saved once more after a rollback
    return _RANK.get(new, -1) > _RANK.get(old, -1)


def _measure(row: Checkpoint, data: Mapping[str, Any]) -> None:
    row.bytes = whole(data.get("bytes")) if data.get("bytes") is not None else row.bytes
    row.files = _files(data.get("files"), row.files)
    row.expected_files = _files(data.get("expected_files"), row.expected_files)
    row.blocking_ms = _duration(data.get("blocking_ms"), row.blocking_ms)
    row.duration_ms = _duration(data.get("duration_ms"), row.duration_ms)
    row.why = str(data.get("why") or "")[:MAX_WHY]


def _files(value: Any, known: int | None) -> int | None:
    count = whole(value)
    return count if count is not None and count <= MAX_FILES else known


def _duration(value: Any, known: float | None) -> float | None:
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= MAX_DURATION_MS:
        return float(value)
    return known


def _stamp(row: Checkpoint, at: datetime) -> None:
    if row.state == CheckpointState.SAVING:
        row.began_at, row.completed_at, row.verified_at = at, None, None
    elif row.state == CheckpointState.COMPLETE:
        row.completed_at = at
        row.began_at = row.began_at or at - timedelta(milliseconds=row.duration_ms or 0)
    elif row.state == CheckpointState.VERIFIED:
        row.completed_at, row.verified_at = row.completed_at or at, at


def _restored(run: Run, step: int, signal: Signal, book: Book) -> None:
    key = f"restored:{run.pk}:{signal.attempt}:{step}"
    told = f"Attempt {signal.attempt} loaded the checkpoint of step {step}."
    at = moment(signal.received)
    book.tell(f"run:{run.name}", "checkpoint", told, key=key, at=at, actor_kind="agent", actor=signal.node)


def record_scan(run: Run, found: Sequence[Mapping[str, Any]], now: datetime) -> list[Checkpoint]:
    """Write the launcher's look at the disk; return the rows of what was found, newest first.

    `found` is the `checkpoints` of a `checkpoints.scan` result. A checkpoint of the
    scanned range that the ledger knows and the disk does not have is deleted.
    """
    rows = [row for item in list(found)[:MAX_FOUND] if (row := _scanned(run, item, now))]
    lowest = min((row.step for row in rows), default=0)
    gone = Checkpoint.objects.filter(run=run, tier=PERSISTENT, step__gte=lowest)
    gone = gone.exclude(pk__in=[row.pk for row in rows]).exclude(state=CheckpointState.DELETED)
    gone.update(state=CheckpointState.DELETED, why="the scan did not find it on the disk")
    live.touch(f"run:{run.name}", urgent=False)
    return sorted(rows, key=lambda row: row.step, reverse=True)


def _scanned(run: Run, item: Mapping[str, Any], now: datetime) -> Checkpoint | None:
    step, state = whole(item.get("step")), item.get("state")
    if step is None or state not in _SCANNED:
        return None
    row = _row(run, PERSISTENT, step, str(item.get("path", ""))[:MAX_PATH])
    pinned = row.state == CheckpointState.PINNED and state != CheckpointState.TORN
    proven = row.state == CheckpointState.VERIFIED and state == CheckpointState.COMPLETE
    if not (pinned or proven):
        row.state = state
    _measure(row, item)
    if state != CheckpointState.TORN:
        row.completed_at = row.completed_at or now
        row.verified_at = now if state == CheckpointState.VERIFIED else row.verified_at
    row.save()
    return row


def pin(run: Run, step: int) -> str | None:
    """Keep the checkpoint of a step among those that stay; return the state it had, None when it cannot be restored.

    Part of the caller's transaction.
    """
    row = Checkpoint.objects.select_for_update().filter(run=run, step=step, state__in=RESTORABLE).first()
    if row is None:
        return None
    Checkpoint.objects.filter(pk=row.pk).update(state=CheckpointState.PINNED)
    live.touch(f"run:{run.name}", urgent=False)
    return row.state


def unpin(run: Run, step: int, before: str) -> bool:
    """Give a pinned checkpoint back the state it had; False when it is not pinned any more."""
    pinned = Checkpoint.objects.filter(run=run, step=step, state=CheckpointState.PINNED)
    live.touch(f"run:{run.name}", urgent=False)
    return bool(pinned.update(state=before))
