"""Read incidents and weigh their findings anew."""

from datetime import datetime

from django.db.models import QuerySet

from controlplane.domain.detection.policy import RunPolicy
from controlplane.domain.diagnosis.diagnose import Diagnosis, diagnose
from controlplane.domain.errors import NotFound
from controlplane.domain.findings import Evidence, Stage
from controlplane.domain.findings import Finding as Judgement
from controlplane.incidents.models import Finding, Incident, IncidentState
from controlplane.runs import queries as runs
from controlplane.runs.models import Run
from controlplane.runs.times import seconds

MAX_WEIGHED = 500


def incident_numbered(number: int) -> Incident:
    """Return an incident by its number; `NotFound` when there is none."""
    incident = Incident.objects.select_related("run").filter(pk=number).first()
    if incident is None:
        raise NotFound(f"there is no incident {number}")
    return incident


def unresolved(run: Run | None = None) -> QuerySet[Incident]:
    """Return the incidents that are open or mitigated, of one run or of all."""
    going = Incident.objects.exclude(state=IncidentState.RESOLVED).select_related("run")
    return going.filter(run=run) if run is not None else going


def open_of(run: Run) -> QuerySet[Incident]:
    """Return the open incidents of a run, oldest first."""
    return Incident.objects.filter(run=run, state=IncidentState.OPEN).select_related("run").order_by("opened_at", "pk")


def judgements(incident: Incident) -> list[Judgement]:
    """Return the findings of an incident as the domain knows them, oldest first."""
    rows = incident.findings.order_by("found_at", "pk")[:MAX_WEIGHED]
    name = incident.run.name if incident.run else None
    return [_judgement(row, name) for row in rows]


def diagnosis(incident: Incident, now: datetime, *, attempt: int | None = None) -> Diagnosis | None:
    """Weigh the findings of an incident, or None when there are none.

    With `attempt`, only those about the newest attempt up to it that any finding is
    about: what was known of an earlier launch condemns no later one.
    """
    findings = judgements(incident)
    if attempt is not None:
        findings = _about(findings, attempt)
    if not findings:
        return None
    policy = runs.policy(incident.run) if incident.run else RunPolicy()
    return diagnose(findings, now=seconds(now), policy=policy)


def _about(findings: list[Judgement], attempt: int) -> list[Judgement]:
    numbers = [item.attempt for item in findings if item.attempt is not None and item.attempt <= attempt]
    newest = max(numbers, default=None)
    return [item for item in findings if item.attempt is None or item.attempt == newest]


def confirmed_against(incident: Incident, attempt: int) -> Finding | None:
    """Return a confirmed finding about exactly this attempt, the first of them."""
    return incident.findings.filter(attempt=attempt, stage=Stage.CONFIRMED).order_by("found_at").first()


def _judgement(row: Finding, run: str | None) -> Judgement:
    return Judgement(
        key=row.key, detector=row.detector, klass=row.klass, stage=Stage(row.stage), entity=row.entity,
        began=seconds(row.began_at), at=seconds(row.found_at), run=run, attempt=row.attempt,
        severity=row.severity, sentence=row.sentence, facts=row.facts,
        evidence=tuple(Evidence(**line) for line in row.evidence),
    )  # fmt: skip
