"""Gather what the choice of a runbook needs to know of the world, read anew each time."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Self

from django.conf import settings

from controlplane.checkpoints.models import Checkpoint
from controlplane.domain.detection.fleet_places import DOMAIN_LABELS
from controlplane.domain.detection.policy import RunPolicy
from controlplane.domain.diagnosis.diagnose import Diagnosis
from controlplane.domain.findings import Stage
from controlplane.domain.recovery.catalog import Catalog
from controlplane.domain.recovery.guards import unsettled
from controlplane.domain.recovery.holds import RunFacts
from controlplane.domain.recovery.responses import REPLACE, STORAGE
from controlplane.domain.recovery.runbook import Runbook
from controlplane.fleet.models import Node, NodeState
from controlplane.incidents.models import IncidentState, Severity
from controlplane.rows import ask
from controlplane.runbooks import guards, overrides
from controlplane.runbooks.models import Execution
from controlplane.runs import automation
from controlplane.runs.machines import fleet_hold
from controlplane.runs.models import Attempt, AttemptState, Run
from controlplane.runs.times import moment, seconds

LOOKED_AT = 50
SAVES_LOOKED_AT = 1_000


NO_RUNBOOKS = Catalog()


@dataclass(frozen=True, slots=True)
class Past:
    """The newest executions of a run that got as far as a launch, and when checkpoints were completed since."""

    launches: Sequence[Execution]
    saves: Sequence[float]

    @classmethod
    def of(cls, run: Run) -> Self:
        """Read it in two queries."""
        begun = Execution.objects.filter(run=run, context__has_key="launched_at").order_by("-pk")
        launches = list(begun[:LOOKED_AT])
        return cls(launches, _saves(run, launches))

    @property
    def fruitless(self) -> list[Execution]:
        """The launches since the newest durable checkpoint."""
        newest = max(self.saves, default=0.0)
        return [item for item in self.launches if _at(item) > newest]

    @property
    def tries(self) -> Counter[str]:
        """How many of those stood on each rung of the ladder."""
        return Counter(str(item.context.get("rung", "")) for item in self.fruitless)

    @property
    def last_restart_at(self) -> float | None:
        """When the last one was launched."""
        return max(map(_at, self.launches), default=None)

    def unsettled(self, policy: RunPolicy, now: datetime) -> int:
        """Count the newest restarts in a row that did not hold."""
        return unsettled([_at(item) for item in self.launches], self.saves, seconds(now), policy)

    def lately_excluded(self, policy: RunPolicy, now: datetime) -> frozenset[str]:
        """Name the nodes that restarts left out within the blast window."""
        since = seconds(now) - policy.blast_window_s
        recent = [item for item in self.launches if _at(item) > since]
        return frozenset(str(name) for item in recent for name in item.context.get("excluded") or ())


def run_facts(
    run: Run,
    attempt: Attempt,
    diagnosis: Diagnosis,
    policy: RunPolicy,
    now: datetime,
    *,
    catalog: Catalog = NO_RUNBOOKS,
    found_at: datetime | None = None,
) -> RunFacts:
    """Return the facts of a run at `now`; a dozen queries at most.

    `catalog` are the runbooks whose own limits are to be counted, `found_at` is when the
    newest of what stands was found.
    """
    past, standing = Past.of(run), automation.standing(run)
    touched = guards.runs_touched(run, policy, now)
    return RunFacts(
        now=seconds(now), mode=run.mode, state=run.state, nodes=tuple(attempt.nodes),
        bucket=guards.bucket_of(run, policy, now), exited=attempt.state == AttemptState.EXITED,
        held=run.held, held_by=run.held_by, partition=fleet_hold(), storage=storage_doubt(run),
        kill_switch=standing.why_off, breaker=standing.why_opened,
        fruitless=past.unsettled(policy, now),
        same_failures=sum(_alike(item, diagnosis) for item in past.fruitless),
        tries=past.tries,
        last_restart_at=past.last_restart_at,
        lately_excluded=past.lately_excluded(policy, now),
        runs_touched=touched,
        runs_at_once=guards.most_runs(touched),
        spares=spares() if diagnosis.act_on or diagnosis.exclude else 0,
        modes=overrides.of(run),
        uses=_uses(run, catalog, now),
        age_s=age_s(found_at, standing, now),
        neighbours=_neighbours(attempt, diagnosis, past.tries[REPLACE], policy),
    )  # fmt: skip


def age_s(found_at: datetime | None, standing: automation.Standing, now: datetime) -> float:
    """How old the news is that an act would rest on; a person's word to answer it makes it new."""
    known = [at for at in (found_at, standing.processed_at) if at is not None]
    return (now - max(known)).total_seconds() if found_at is not None else 0.0


def _uses(run: Run, catalog: Catalog, now: datetime) -> dict[str, int]:
    """Count how often each runbook whose file limits that began to work on the run lately."""
    limited = [item for item in catalog.runbooks.values() if item.limits.uses is not None]
    return {item.id: uses(run, item, now) for item in limited}


def uses(run: Run, runbook: Runbook, now: datetime) -> int:
    """Count how often a runbook began to work on the run within the time of its own limit."""
    since = now - timedelta(seconds=runbook.limits.uses_s)
    begun = Execution.objects.filter(run=run, runbook=runbook.id, steps__started_at__gt=since)
    return begun.distinct().count()


def _neighbours(attempt: Attempt, diagnosis: Diagnosis, tried: int, policy: RunPolicy) -> tuple[str, ...]:
    """Return the run's nodes in the suspect's failure domain, once replacing it alone was tried in vain."""
    if diagnosis.act_on is None or tried < policy.rung_tries:
        return ()
    return neighbours(attempt, diagnosis.act_on)


def neighbours(attempt: Attempt, name: str) -> tuple[str, ...]:
    """Return the other nodes of an attempt that share the smallest known failure domain with one of them.

    A label that all of them share tells nothing.
    """
    labels = {node.name: node.labels for node in Node.objects.filter(name__in=attempt.nodes)}
    for label in DOMAIN_LABELS:
        value = labels.get(name, {}).get(label)
        same = [other for other in attempt.nodes if value and labels.get(other, {}).get(label) == value]
        if 1 < len(same) < len(attempt.nodes):
            return tuple(other for other in same if other != name)
    return ()


STORAGE_DOUBT = """
    SELECT sentence FROM incidents_finding AS finding JOIN incidents_incident AS incident
        ON incident.id = finding.incident_id
    WHERE finding.class = %s AND finding.stage = %s AND finding.severity = %s AND incident.state <> %s
        AND incident.run_id = %s
    ORDER BY found_at LIMIT 1
"""
STORAGE_DOUBT_VALUES = (STORAGE, Stage.CONFIRMED.value, Severity.CRITICAL.value, IncidentState.RESOLVED.value)
"""What it is asked with, but for the run, which comes last."""


def storage_doubt(run: Run) -> str:
    """Return why the run's storage is not trusted, empty when nothing stands against it (R-12)."""
    found = ask(STORAGE_DOUBT, [*STORAGE_DOUBT_VALUES, run.pk])
    return str(found[0][0]) if found else ""


def spares() -> int:
    """Return how many nodes automation may take into a run in place of others, on a suspicion too."""
    free = Node.objects.filter(state=NodeState.SPARE, head=False, held=False, identity_conflict=False).count()
    return max(0, free - settings.SPARES_KEPT)


def _at(launch: Execution) -> float:
    return float(launch.context["launched_at"])


def _saves(run: Run, launches: Sequence[Execution]) -> list[float]:
    """Return when checkpoints were completed since the oldest of the launches."""
    if not launches:
        return []
    since = moment(min(map(_at, launches)))
    saved = Checkpoint.objects.filter(run=run, completed_at__gt=since).order_by("-completed_at")
    return [seconds(at) for at in saved.values_list("completed_at", flat=True)[:SAVES_LOOKED_AT] if at is not None]


def _alike(earlier: Execution, diagnosis: Diagnosis) -> bool:
    """Tell whether an earlier restart answered the same failure and left no node out."""
    return earlier.context.get("fingerprint") == diagnosis.fingerprint and not earlier.context.get("excluded")
