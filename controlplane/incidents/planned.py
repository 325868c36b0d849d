"""The record of what a person started: told and closed like an incident, and counted as none.

It has no finding, so nothing is weighed, nobody is blamed and no runbook answers it. Who
started it does not look at it for that: what it pages for goes on until somebody answers.
"""

from collections.abc import Sequence
from datetime import datetime

from controlplane.domain.chronicle.sentences import full_stop
from controlplane.domain.chronicle.words import cut
from controlplane.domain.diagnosis.classes import PLANNED
from controlplane.incidents.models import Incident, IncidentState, Severity
from controlplane.incidents.telling import tell_both
from controlplane.runs.book import Book
from controlplane.runs.models import Attempt, Run

MAX_TITLE = 300


def open_planned(run: Run, attempt: Attempt, title: str, by: str, now: datetime, *, book: Book) -> Incident:
    """Open the record of planned work on a run. Part of the caller's transaction."""
    incident = Incident.objects.create(
        run=run, attempt=attempt.number, klass=PLANNED.name, severity=Severity.INFO, title=cut(title, MAX_TITLE),
        began_at=now, opened_at=now, onset_step=run.high_water_step,
        root_cause=f"{by} asked for it",
    )  # fmt: skip
    told = full_stop(f"{by} started planned work: {incident.title}")
    tell_both(incident, "opened", told, book, key=f"incident:{incident.pk}:opened")
    return incident


def going(incidents: Sequence[int] | None = None) -> list[Incident]:
    """Return the records of planned work that are not closed, oldest first."""
    known = Incident.objects.filter(klass=PLANNED.name).exclude(state=IncidentState.RESOLVED)
    known = known if incidents is None else known.filter(pk__in=incidents)
    return list(known.select_related("run").order_by("pk"))
