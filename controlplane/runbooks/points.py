"""Which checkpoint a restart may use: the newest that no finding of the run distrusts.

What an attempt has resumed from and trained on is proven, also where nobody reported
it: a run that was launched elsewhere before is not begun from the start for that.
"""

from dataclasses import replace

from django.db.models import Max

from controlplane.checkpoints import queries as ledger
from controlplane.checkpoints.models import Checkpoint
from controlplane.domain.checkpoints.restore import RestoreChoice
from controlplane.domain.findings import Stage
from controlplane.domain.recovery.responses import BACKWARDS, suspect_step
from controlplane.incidents.models import Finding
from controlplane.runs.models import Attempt, Run

LOOKED_AT = 50


def restore_point(run: Run) -> RestoreChoice:
    """Choose where a restart begins; step 0 when nothing can be restored."""
    suspects = suspect_steps(run)
    choice, proven = ledger.restore_point(run, suspects=suspects), _resumed_from(run)
    if proven is None or proven.resume_step <= choice.step or proven.resume_step in suspects:
        return choice
    if ledger.of_run(run).filter(step=proven.resume_step).exists():
        return choice  # the ledger knows it, and knows something against it
    why = f"attempt {proven.number} resumed from it, and the ledger knows no newer complete one"
    lost = max(0, run.high_water_step - proven.resume_step)
    return replace(
        choice, step=proven.resume_step, path=proven.resume_path, tier="persistent", why=why, lost_steps=lost
    )


def _resumed_from(run: Run) -> Attempt | None:
    """Return the attempt that made steps after resuming from the furthest checkpoint."""
    stepped = Attempt.objects.filter(run=run, resume_step__gt=0).exclude(first_step_at=None)
    return stepped.order_by("-resume_step", "-number").first()


def work_since(run: Run, step: int) -> float:
    """Return the seconds between the checkpoint of `step` and the newest one, as they were completed."""
    complete = Checkpoint.objects.filter(run=run).exclude(completed_at=None)
    here = complete.filter(step=step).aggregate(at=Max("completed_at"))["at"]
    newest = complete.aggregate(at=Max("completed_at"))["at"]
    return (newest - here).total_seconds() if here and newest else 0.0


def suspect_steps(run: Run) -> set[int]:
    """Return the steps of the checkpoints under suspicion; one that was saved anew since is a new one."""
    findings = Finding.objects.filter(incident__run=run, klass__in=sorted(BACKWARDS), stage=Stage.CONFIRMED)
    since = {
        step: finding.found_at
        for finding in findings.order_by("found_at")[:LOOKED_AT]
        if (step := suspect_step(finding.klass, finding.entity, finding.facts)) is not None
    }
    if not since:
        return set()
    saved = Checkpoint.objects.filter(run=run, step__in=sorted(since)).exclude(completed_at=None)
    fresh = {row.step for row in saved if (at := row.began_at or row.completed_at) and at > since[row.step]}
    return set(since) - fresh
