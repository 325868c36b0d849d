"""Which checkpoints a restart may use: those that no finding of the run distrusts."""

from controlplane.checkpoints.models import Checkpoint
from controlplane.domain.findings import Stage
from controlplane.domain.recovery.responses import BACKWARDS, suspect_step
from controlplane.incidents.models import Finding
from controlplane.runs.models import Run

LOOKED_AT = 50


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
