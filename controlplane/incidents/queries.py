"""Read incidents and weigh their findings anew."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from django.db.models import Max, Q, QuerySet
from django.db.models.functions import Coalesce

from controlplane.domain.detection.policy import RunPolicy
from controlplane.domain.diagnosis.company import MIN_FAILURES, Launch, company_kept
from controlplane.domain.diagnosis.diagnose import Diagnosis, diagnose
from controlplane.domain.diagnosis.stacks import StackGroup
from controlplane.domain.diagnosis.weigh import History
from controlplane.domain.errors import NotFound
from controlplane.domain.findings import Finding as Judgement
from controlplane.domain.findings import Stage
from controlplane.incidents import stacks
from controlplane.incidents.models import Finding, Incident, IncidentState, Silence
from controlplane.incidents.rows import judgement_of, standing_again
from controlplane.quarantine.models import LedgerEntry
from controlplane.runs import queries as runs
from controlplane.runs.models import AttemptState, Run
from controlplane.runs.times import seconds

MAX_WEIGHED = 500
LAUNCHES_KNOWN = 20
OFFENDS_FOR = timedelta(days=14)


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


def silenced(run: Run | None, now: datetime) -> bool:
    """Say whether somebody asked not to be woken about this run, or about anything, at `now`."""
    about = Q(run=None) | Q(run=run) if run is not None else Q(run=None)
    return Silence.objects.filter(about, begins_at__lte=now, until__gt=now).exists()


def stack_groups(incident: Incident, attempt: int | None = None) -> tuple[StackGroup, ...]:
    """Return who stood where when stacks were last taken, of one attempt or the newest; the few first."""
    return stacks.stack_groups(incident, attempt)


def judgements(incident: Incident) -> list[Judgement]:
    """Return the findings of an incident as the domain knows them, oldest first."""
    rows = list(incident.findings.order_by("-found_at", "-pk")[:MAX_WEIGHED])
    name = incident.run.name if incident.run else None
    return [judgement_of(row, name) for row in reversed(rows)]


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
    return diagnose(findings, now=seconds(now), policy=policy, history=history(incident, findings, now))


def at_its_worst(incident: Incident) -> Diagnosis | None:
    """Weigh a past incident as it stood before anything of it cleared, or None when nothing was ever found."""
    rows = list(incident.findings.order_by("-found_at", "-pk")[:MAX_WEIGHED])
    name = incident.run.name if incident.run else None
    findings = [standing_again(row, name) for row in reversed(rows)]
    if not findings:
        return None
    policy, then = (
        runs.policy(incident.run) if incident.run else RunPolicy(),
        incident.confirmed_at or incident.opened_at,
    )
    return diagnose(findings, now=seconds(then), policy=policy, history=history(incident, findings, then))


def found_at(incident: Incident, now: datetime, *, young_s: float) -> datetime | None:
    """Return when the newest of what stands was found or confirmed, None when nothing stands.

    An incident that is itself younger than `young_s` is not asked further.
    """
    if (now - incident.opened_at).total_seconds() <= young_s:
        return incident.opened_at
    standing = incident.findings.exclude(stage=Stage.CLEARED)
    newest: datetime | None = standing.aggregate(at=Max(Coalesce("confirmed_at", "found_at")))["at"]
    return newest


def _about(findings: list[Judgement], attempt: int) -> list[Judgement]:
    numbers = [item.attempt for item in findings if item.attempt is not None and item.attempt <= attempt]
    newest = max(numbers, default=None)
    return [item for item in findings if item.attempt is None or item.attempt == newest]


def history(incident: Incident, findings: Sequence[Judgement], now: datetime) -> History:
    """Return what the ledger and the earlier launches say of the suspects; asks only when there are any."""
    named = {line.entity.removeprefix("node:") for item in findings for line in item.evidence
             if line.weight > 0 and line.entity.startswith("node:")}  # fmt: skip
    company = company_kept(_launches(incident.run)) if incident.run and (incident.attempt or 0) >= MIN_FAILURES else {}
    return History(
        offenders=_offenders(named, incident, now), company=company, refuted=frozenset(incident.refuted),
    )  # fmt: skip


def _offenders(named: set[str], incident: Incident, now: datetime) -> frozenset[str]:
    """Name the suspects with a strike of the last 14 days from another incident than this one."""
    if not named:
        return frozenset()
    struck = LedgerEntry.objects.filter(node__name__in=named, strike=True, at__gt=now - OFFENDS_FOR)
    struck = struck.exclude(incident_id=incident.pk)
    return frozenset(f"node:{name}" for name in struck.values_list("node__name", flat=True))


def _launches(run: Run) -> list[Launch]:
    """Return the newest launches whose outcome is known: one that went beyond what was there before is a good one."""
    known = run.attempts.order_by("-number")[:LAUNCHES_KNOWN]
    return [
        Launch(nodes=frozenset(item.nodes), failed=item.beyond_at is None)
        for item in known
        if item.beyond_at is not None or (item.state == AttemptState.EXITED and item.stopping_at is None)
    ]


def confirmed_against(incident: Incident, attempt: int) -> Finding | None:
    """Return a confirmed finding about exactly this attempt, the first of them.

    What was moved to the incident that explains this one still counts.
    """
    about = Finding.objects.filter(Q(incident=incident) | Q(incident=incident.explained_by_id))
    return about.filter(attempt=attempt, stage=Stage.CONFIRMED).order_by("found_at").first()
