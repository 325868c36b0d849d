"""Read the checkpoint ledger."""

from collections.abc import Collection
from dataclasses import replace
from datetime import datetime

from django.db.models import QuerySet

from controlplane.checkpoints.models import Checkpoint, CheckpointState
from controlplane.domain.checkpoints.restore import (
    RESTORABLE,
    Candidate,
    Exposure,
    RestoreChoice,
    choose_restore_point,
    exposure,
)
from controlplane.runs import queries as runs
from controlplane.runs.models import Run
from controlplane.runs.times import seconds

LOOKED_AT = 100
SUSPECT = "what restored it died soon after"
USABLE = tuple(sorted(RESTORABLE))


def of_run(run: Run) -> QuerySet[Checkpoint]:
    """Return the checkpoints of a run, newest step first."""
    return Checkpoint.objects.filter(run=run)


def newest_complete(run: Run) -> Checkpoint | None:
    """Return the newest checkpoint that can be restored."""
    return of_run(run).filter(state__in=USABLE).first()


def has_saved(run: Run) -> bool:
    """Tell whether the ledger ever knew a complete checkpoint of the run."""
    return of_run(run).exclude(completed_at=None).exists()


def completed_since(run: Run, since: datetime, *, step: int = 0) -> Checkpoint | None:
    """Return the newest checkpoint of `step` or later that was completed after `since` and lacks no file."""
    complete = of_run(run).filter(state__in=USABLE, completed_at__gt=since, step__gte=step)
    return next((row for row in complete.order_by("-step")[:LOOKED_AT] if not missing_files(row)), None)


def candidates(run: Run, *, suspects: Collection[int] = ()) -> list[Candidate]:
    """Return the checkpoints that are still there, newest first; those of the steps in `suspects` are marked so."""
    known = of_run(run).exclude(state=CheckpointState.DELETED)[:LOOKED_AT]
    found = [_candidate(row) for row in known]
    return [replace(item, suspect=True, why=SUSPECT) if item.step in suspects else item for item in found]


def restore_point(run: Run, *, suspects: Collection[int] = ()) -> RestoreChoice:
    """Choose where a restart would begin now; step 0 when nothing can be restored.

    A checkpoint of a step in `suspects` is passed over.
    """
    return choose_restore_point(candidates(run, suspects=suspects), high_water=run.high_water_step)


def _candidate(row: Checkpoint) -> Candidate:
    lacks = missing_files(row)
    state = CheckpointState.TORN.value if lacks and row.state in RESTORABLE else row.state
    return Candidate(step=row.step, path=row.path, state=state, tier=row.tier, why=row.why or lacks)


def missing_files(row: Checkpoint) -> str:
    """Say how many files a checkpoint lacks, "" for none: what calls itself complete may not be (D-09)."""
    if row.files is None or not row.expected_files or row.files >= row.expected_files:
        return ""
    return f"{row.files} of {row.expected_files} files"


def exposed(run: Run, now: datetime) -> Exposure | None:
    """Measure what a crash at `now` would lose; None before the first launch."""
    attempt = runs.newest_attempt(run)
    if attempt is None:
        return None
    saved = newest_complete(run)
    captured = (saved.began_at or saved.completed_at) if saved else None
    return exposure(
        last_step=attempt.last_step or attempt.resume_step,
        restore_step=saved.step if saved else 0,
        captured_at=seconds(captured) if captured else None,
        started_at=seconds(attempt.first_step_at or attempt.started_at),
        now=seconds(now),
        gpus=run.gpus_per_node * len(attempt.nodes),
    )
