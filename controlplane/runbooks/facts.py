"""Gather what the choice of a runbook needs to know of the world, read anew each time."""

from datetime import datetime

from controlplane.checkpoints.models import Checkpoint
from controlplane.domain.detection.policy import RunPolicy
from controlplane.domain.diagnosis.diagnose import Diagnosis
from controlplane.domain.recovery.choice import RunFacts
from controlplane.runbooks import guards
from controlplane.runbooks.models import Execution
from controlplane.runs.machines import fleet_hold
from controlplane.runs.models import Attempt, Run
from controlplane.runs.times import moment, seconds

LOOKED_AT = 50


def run_facts(run: Run, attempt: Attempt, diagnosis: Diagnosis, policy: RunPolicy, now: datetime) -> RunFacts:
    """Return the facts of a run at `now`."""
    launches = _launches(run)
    fruitless = _fruitless(run, launches)
    return RunFacts(
        now=seconds(now), mode=run.mode, state=run.state, nodes=tuple(attempt.nodes),
        bucket=guards.bucket_of(run, policy, now), held=run.held, held_by=run.held_by, partition=fleet_hold(),
        fruitless=len(fruitless),
        same_failures=sum(_alike(item, diagnosis) for item in fruitless),
        last_restart_at=max((item.context["launched_at"] for item in launches), default=None),
    )  # fmt: skip


def _launches(run: Run) -> list[Execution]:
    """Return the newest executions of a run that got as far as a launch."""
    return list(Execution.objects.filter(run=run, context__has_key="launched_at").order_by("-pk")[:LOOKED_AT])


def _fruitless(run: Run, launches: list[Execution]) -> list[Execution]:
    """Return the launches since the newest durable checkpoint."""
    saved = Checkpoint.objects.filter(run=run).exclude(completed_at=None).order_by("-completed_at").first()
    if saved is None or saved.completed_at is None:
        return launches
    return [item for item in launches if moment(item.context["launched_at"]) > saved.completed_at]


def _alike(earlier: Execution, diagnosis: Diagnosis) -> bool:
    """Tell whether an earlier restart answered the same failure and left no node out."""
    return earlier.context.get("fingerprint") == diagnosis.fingerprint and not earlier.context.get("excluded")
