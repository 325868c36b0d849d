"""Gather what the choice of a runbook needs to know of the world, read anew each time."""

from collections import Counter
from datetime import datetime

from controlplane.checkpoints.models import Checkpoint
from controlplane.domain.detection.policy import RunPolicy
from controlplane.domain.diagnosis.diagnose import Diagnosis
from controlplane.domain.findings import Stage
from controlplane.domain.recovery.holds import RunFacts
from controlplane.domain.recovery.responses import STORAGE
from controlplane.fleet.models import Node, NodeState
from controlplane.incidents.models import Finding, IncidentState, Severity
from controlplane.runbooks import guards
from controlplane.runbooks.models import Execution
from controlplane.runs.machines import fleet_hold
from controlplane.runs.models import Attempt, AttemptState, Run
from controlplane.runs.times import moment, seconds

LOOKED_AT = 50


def run_facts(run: Run, attempt: Attempt, diagnosis: Diagnosis, policy: RunPolicy, now: datetime) -> RunFacts:
    """Return the facts of a run at `now`; six queries at most."""
    launches = _launches(run)
    fruitless = _fruitless(run, launches)
    return RunFacts(
        now=seconds(now), mode=run.mode, state=run.state, nodes=tuple(attempt.nodes),
        bucket=guards.bucket_of(run, policy, now), exited=attempt.state == AttemptState.EXITED,
        held=run.held, held_by=run.held_by, partition=fleet_hold(), storage=storage_doubt(run),
        fruitless=len(fruitless),
        same_failures=sum(_alike(item, diagnosis) for item in fruitless),
        tries=Counter(str(item.context.get("rung", "")) for item in fruitless),
        last_restart_at=max((item.context["launched_at"] for item in launches), default=None),
        lately_excluded=_lately_excluded(launches, policy, now),
        spares=spares() if diagnosis.act_on else 0,
    )  # fmt: skip


def storage_doubt(run: Run) -> str:
    """Return why the run's storage is not trusted, empty when nothing stands against it (R-12)."""
    standing = Finding.objects.filter(
        klass=STORAGE, stage=Stage.CONFIRMED, severity=Severity.CRITICAL, incident__run=run
    ).exclude(incident__state=IncidentState.RESOLVED)
    return standing.order_by("found_at").values_list("sentence", flat=True).first() or ""


def spares() -> int:
    """Return how many nodes automation may take into a run."""
    return Node.objects.filter(state=NodeState.SPARE, head=False, held=False, identity_conflict=False).count()


def _launches(run: Run) -> list[Execution]:
    """Return the newest executions of a run that got as far as a launch."""
    return list(Execution.objects.filter(run=run, context__has_key="launched_at").order_by("-pk")[:LOOKED_AT])


def _fruitless(run: Run, launches: list[Execution]) -> list[Execution]:
    """Return the launches since the newest durable checkpoint."""
    if not launches:
        return []
    saved = Checkpoint.objects.filter(run=run).exclude(completed_at=None).order_by("-completed_at").first()
    if saved is None or saved.completed_at is None:
        return launches
    return [item for item in launches if moment(item.context["launched_at"]) > saved.completed_at]


def _alike(earlier: Execution, diagnosis: Diagnosis) -> bool:
    """Tell whether an earlier restart answered the same failure and left no node out."""
    return earlier.context.get("fingerprint") == diagnosis.fingerprint and not earlier.context.get("excluded")


def _lately_excluded(launches: list[Execution], policy: RunPolicy, now: datetime) -> frozenset[str]:
    since = seconds(now) - policy.blast_window_s
    recent = [item for item in launches if item.context["launched_at"] > since]
    return frozenset(str(name) for item in recent for name in item.context.get("excluded") or ())
