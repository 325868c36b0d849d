"""How an incident ends by itself: what cleared, what comes and goes, and what another one explains."""

from datetime import datetime, timedelta

from controlplane.domain.chronicle import sentences
from controlplane.domain.diagnosis.classes import Family
from controlplane.domain.diagnosis.diagnose import Diagnosis
from controlplane.domain.diagnosis.inhibit import family_of
from controlplane.domain.findings import Stage
from controlplane.incidents.models import Finding, Incident, IncidentState
from controlplane.incidents.telling import stream, tell_both
from controlplane.notify import actions as notify
from controlplane.runs.book import Book
from controlplane.runs.models import Attempt, AttemptState

FLAPS = 3
FLAPS_WITHIN = timedelta(minutes=30)
QUIET_FOR = timedelta(minutes=10)
"""What opened and cleared three times in half an hour stays open until it was quiet for so long."""


def cleared_up(incident: Incident, found: Diagnosis, now: datetime, book: Book) -> None:
    """Close an incident of which nothing holds any more, unless it comes and goes or is ours to close."""
    if incident.state == IncidentState.RESOLVED or not _ends_by_itself(incident, found):
        return
    if incident.flapping_until is not None or _flaps(incident, now):
        _damp(incident, now, book)
        return
    close(incident, "it recovered by itself" if incident.confirmed_at is None else _why_over(found), now, book)


def _why_over(found: Diagnosis) -> str:
    """Repeat what the detector said when it took its finding back."""
    return f"it is over, {found.title}" if found.title else "it is over"


def _ends_by_itself(incident: Incident, found: Diagnosis) -> bool:
    stage = Stage.CONFIRMED if incident.confirmed_at else Stage.SUSPECT
    if family_of(found.klass, found.severity, stage) is not Family.STOP:
        return True
    return incident.state == IncidentState.OPEN and not _ours(incident)


def _ours(incident: Incident) -> bool:
    """Tell whether we have laid hands on the attempt; what follows is then ours to close."""
    attempt = Attempt.objects.filter(run=incident.run, number=incident.attempt or 0).first()
    return attempt is not None and (attempt.stopping_at is not None or attempt.state == AttemptState.EXITED)


def _flaps(incident: Incident, now: datetime) -> bool:
    """Count how often the same trouble of the same entity cleared lately."""
    of_run = Finding.objects.filter(incident__run=incident.run, cleared_at__gt=now - FLAPS_WITHIN)
    entities = incident.findings.values_list("entity", flat=True)
    return of_run.filter(klass=incident.klass, entity__in=list(entities)).count() >= FLAPS


def _damp(incident: Incident, now: datetime, book: Book) -> None:
    first = incident.flapping_until is None
    incident.flapping_until = now + QUIET_FOR
    incident.save(update_fields=["flapping_until"])
    if first:
        told = sentences.flapping(FLAPS, FLAPS_WITHIN.total_seconds(), QUIET_FOR.total_seconds())
        book.tell(stream(incident), "finding", told, key=f"incident:{incident.pk}:flapping")


def quieten(incident: Incident, now: datetime, book: Book) -> bool:
    """Close what came and went once it has been quiet for long enough; False while it has not."""
    if incident.flapping_until is None or now < incident.flapping_until:
        return False
    if incident.findings.exclude(stage=Stage.CLEARED).exists():
        return False
    return close(incident, "it has been quiet for 10 min", now, book)


def close(incident: Incident, why: str, now: datetime, book: Book) -> bool:
    """Resolve the incident; False when it was resolved before. Part of the caller's transaction."""
    going = Incident.objects.filter(pk=incident.pk).exclude(state=IncidentState.RESOLVED)
    if not going.update(state=IncidentState.RESOLVED, resolved_at=now, mitigated_at=incident.mitigated_at or now):
        return False
    incident.refresh_from_db()
    notify.ended(stream(incident), now)
    told = sentences.resolved(incident.run.name if incident.run else None, why)
    tell_both(incident, "resolved", told, book, key=f"incident:{incident.pk}:resolved")
    return True


def explain(old: Incident, by: Incident, now: datetime, book: Book) -> None:
    """Close an incident whose cause another one names; what it knows of the newest attempt goes with it."""
    theirs = set(by.findings.values_list("key", flat=True))
    moving = old.findings.exclude(key__in=theirs)
    if by.attempt is not None:
        moving = moving.filter(attempt__gte=by.attempt)
    moving.update(incident=by)
    Incident.objects.filter(pk=old.pk).update(explained_by=by, root_cause=by.title)
    close(old, f"incident {by.pk} explains it", now, book)
