"""What people and runbooks do to incidents.

Acknowledging stops nothing: it says that somebody looks. Mitigated means that
training moves again; resolved needs the cause excluded or named, or the onset
passed with a durable checkpoint behind it (methods 11.11). Findings come in
through `record`.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction

from controlplane.access import links
from controlplane.domain.chronicle import sentences
from controlplane.domain.errors import Conflict, Invalid
from controlplane.incidents import queries
from controlplane.incidents.models import Incident, IncidentState, Silence
from controlplane.incidents.parts import is_part
from controlplane.incidents.record import record
from controlplane.incidents.settle import settle
from controlplane.incidents.telling import shown, stream, tell_both
from controlplane.notify import actions as notify
from controlplane.runs.book import Book
from controlplane.runs.models import Run

__all__ = [
    "acknowledge", "decide", "mitigate", "note", "record", "resolve", "resolve_by_hand", "settle", "silence",
    "unsilence",
]  # fmt: skip

MAX_NOTE = 10_000
MAX_SILENCE_MIN = 7 * 24 * 60
PERSON = "person"
FLEET = "fleet"


def acknowledge(incident: Incident, by: str, now: datetime) -> None:
    """Say that a person looks at the incident; automation goes on.

    Raises:
        Conflict: it is resolved, or somebody acknowledged it before.
    """
    open_ones = Incident.objects.filter(pk=incident.pk, acknowledged_at=None).exclude(state=IncidentState.RESOLVED)
    with transaction.atomic():
        if not open_ones.update(acknowledged_at=now, acknowledged_by=by):
            raise Conflict(_why_not(incident))
        book = Book(now, PERSON, by)
        book.tell(stream(incident), "acknowledge", f"{by} acknowledged the incident; nothing else changes by that.")
        book.write()
        links.revoke(stream(incident), now, purpose="acknowledge")
        notify.acknowledged(stream(incident), by, now)
        shown(incident)
        whole = Incident.objects.filter(explained=incident, acknowledged_at=None).first()
        if whole is not None and is_part(incident):
            acknowledge(whole, by, now)  # people were asked once, so they answer once
    incident.acknowledged_at, incident.acknowledged_by = now, by


def _why_not(incident: Incident) -> str:
    incident.refresh_from_db()
    if incident.acknowledged_at is not None:
        return f"{incident.acknowledged_by} acknowledged it before"
    return "the incident is resolved"


def note(incident: Incident, text: str, by: str, now: datetime) -> None:
    """Add a person's note (Markdown) to the chronicle of an incident.

    Raises:
        Invalid: the note is empty or longer than MAX_NOTE characters.
    """
    said = text.strip()
    if not said:
        raise Invalid("text", "must not be empty")
    if len(said) > MAX_NOTE:
        raise Invalid("text", f"must be at most {MAX_NOTE} characters")
    with transaction.atomic():
        book = Book(now, PERSON, by)
        book.tell(stream(incident), "note", said)
        book.write()
        shown(incident)


def silence(run: Run | None, minutes: float, by: str, now: datetime) -> Silence:
    """Wake nobody about a run (None: about anything) for some minutes; incidents are recorded and answered as ever.

    Raises:
        Invalid: the time is not above 0 and at most MAX_SILENCE_MIN minutes.
    """
    if not 0 < minutes <= MAX_SILENCE_MIN:
        raise Invalid("minutes", f"must be above 0 and at most {MAX_SILENCE_MIN}")
    length = timedelta(minutes=minutes)
    with transaction.atomic():
        made = Silence.objects.create(run=run, by=by, begins_at=now, until=now + length)
        for incident in queries.unresolved(run).filter(quiet=False):
            Incident.objects.filter(pk=incident.pk).update(quiet=True)
            shown(incident)
        book = Book(now, PERSON, by)
        about, home = (f"run {run.name}", f"run:{run.name}") if run else ("everything", FLEET)
        told = sentences.silenced(by, about, length.total_seconds(), made.until)
        for stream_name in dict.fromkeys((home, FLEET)):
            book.tell(stream_name, "pause", told)
        book.write()
    return made


def unsilence(run: Run, by: str, now: datetime) -> bool:
    """End the silence that somebody asked for about a run before its time; False when there is none any more.

    What came up meanwhile is quiet no more, or nobody would ever be called for it.
    """
    with transaction.atomic():
        silence = Silence.objects.select_for_update().filter(run=run, by=by, until__gt=now).order_by("pk").first()
        if silence is None:
            return False
        Silence.objects.filter(pk=silence.pk).update(until=now)
        if not queries.silenced(run, now):
            queries.unresolved(run).filter(quiet=True, opened_at__gte=silence.begins_at).update(quiet=False)
        book = Book(now, PERSON, by)
        book.tell(f"run:{run.name}", "resume", sentences.full_stop(f"The silence of {by} is over"))
        book.tell(FLEET, "resume", sentences.full_stop(f"The silence of {by} about run {run.name} is over"))
        book.write()
    return True


def decide(incident: Incident, decision: Mapping[str, Any], now: datetime) -> bool:
    """Store what was decided about the incident; False when it is what was decided before."""
    if incident.decision == dict(decision):
        return False
    Incident.objects.filter(pk=incident.pk).update(decision=dict(decision), decided_at=incident.decided_at or now)
    incident.decision, incident.decided_at = dict(decision), incident.decided_at or now
    shown(incident)
    return True


def mitigate(
    incident: Incident, sentence: str, now: datetime, *, book: Book, losses: Mapping[str, Any] | None = None
) -> bool:
    """Record that training moves again, and what it cost; False when the incident is no longer open.

    Part of the caller's transaction.
    """
    if losses is not None:
        Incident.objects.filter(pk=incident.pk).update(losses=dict(losses))
    open_one = Incident.objects.filter(pk=incident.pk, state=IncidentState.OPEN)
    moved = bool(open_one.update(state=IncidentState.MITIGATED, mitigated_at=now))
    incident.refresh_from_db()
    if moved:
        notify.ended(stream(incident), now)
        tell_both(incident, "mitigated", sentence, book, key=f"incident:{incident.pk}:mitigated")
    return moved


def resolve(incident: Incident, sentence: str, now: datetime, *, book: Book, root_cause: str = "") -> bool:
    """Close the incident; False when it was closed before. Part of the caller's transaction."""
    cause = {"root_cause": root_cause} if root_cause else {}
    going = Incident.objects.filter(pk=incident.pk).exclude(state=IncidentState.RESOLVED)
    if not going.update(state=IncidentState.RESOLVED, resolved_at=now, **cause):
        return False
    incident.refresh_from_db()
    links.revoke(stream(incident), now)
    notify.ended(stream(incident), now)
    tell_both(incident, "resolved", sentence, book, key=f"incident:{incident.pk}:resolved")
    return True


def resolve_by_hand(incident: Incident, by: str, now: datetime, *, root_cause: str = "") -> None:
    """Close the incident by a person's word.

    Raises:
        Conflict: it is resolved already.
    """
    with transaction.atomic():
        book = Book(now, PERSON, by)
        because = f" Cause: {root_cause}" if root_cause else ""
        if not resolve(incident, f"{by} resolved the incident.{because}", now, book=book, root_cause=root_cause):
            raise Conflict("the incident is resolved already")
        book.write()
