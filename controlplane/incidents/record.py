"""Turn findings into incidents: correlate, weigh, tell.

One incident is one trouble of one run, however many findings and launches it
takes. Its class may rise as evidence comes in; a finding that comes again changes
its row and tells nothing twice.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.db import transaction

from controlplane.domain.chronicle import sentences
from controlplane.domain.diagnosis.diagnose import Diagnosis
from controlplane.domain.diagnosis.group import IncidentFacts, same_incident
from controlplane.domain.findings import Finding as Judgement
from controlplane.domain.findings import Stage
from controlplane.incidents import queries
from controlplane.incidents.models import Finding, Incident, IncidentState
from controlplane.incidents.telling import shown, stream, tell_both
from controlplane.runs.book import Book
from controlplane.runs.models import Attempt, AttemptState, Run
from controlplane.runs.times import moment

DETECTOR = "detector"
MAX_SENTENCE = 1_000


def record(
    run: Run | None, findings: Sequence[Judgement], now: datetime, *, book: Book | None = None
) -> list[Incident]:
    """Open or update the incidents that these findings belong to, and return them.

    `run` None is the fleet. Part of the caller's transaction when there is one; with
    a `book` its owner writes the sentences.
    """
    if not findings:
        return []
    with transaction.atomic():
        mine = book or Book(now, DETECTOR)
        touched: dict[int, Incident] = {}
        for judgement in findings:
            incident = _take(run, judgement, now, mine)
            if incident is not None:
                touched[incident.pk] = incident
        for incident in touched.values():
            _weigh(incident, now, mine)
        if book is None:
            mine.write()
    return list(touched.values())


def _take(run: Run | None, judgement: Judgement, now: datetime, book: Book) -> Incident | None:
    """Write one finding into the incident it belongs to; None when it cleared before anybody was told."""
    known = _known(run, judgement)
    if known is not None:
        return _change(known, judgement, now, book)
    if judgement.stage is Stage.CLEARED:
        return None
    incident = _home(run, judgement)
    if incident is None:
        return _open(run, judgement, now, book)
    _add(incident, judgement, now)
    _tell_finding(incident, judgement, book)
    return incident


def _known(run: Run | None, judgement: Judgement) -> Finding | None:
    rows = Finding.objects.select_for_update(of=("self", "incident"), no_key=True).select_related("incident")
    return rows.filter(key=judgement.key, incident__run=run).exclude(incident__state=IncidentState.RESOLVED).first()


def _home(run: Run | None, judgement: Judgement) -> Incident | None:
    going = Incident.objects.select_for_update(no_key=True).filter(run=run).exclude(state=IncidentState.RESOLVED)
    return next((item for item in going if same_incident(_facts(item, run), judgement)), None)


def _facts(incident: Incident, run: Run | None) -> IncidentFacts:
    return IncidentFacts(
        run=run.name if run else None, attempt=incident.attempt, klass=incident.klass, state=incident.state
    )


def _open(run: Run | None, judgement: Judgement, now: datetime, book: Book) -> Incident:
    incident = Incident.objects.create(
        run=run, attempt=judgement.attempt, klass=judgement.klass, severity=judgement.severity,
        title=judgement.sentence[:MAX_SENTENCE], began_at=moment(judgement.began), opened_at=now,
        onset_step=run.high_water_step if run else None,
    )  # fmt: skip
    _add(incident, judgement, now)
    found = queries.diagnosis(incident, now)
    if found is not None:
        told = sentences.opened(found, run=run.name if run else None)
        key = f"incident:{incident.pk}:opened"
        tell_both(incident, "opened", told, book, key=key, actor=judgement.detector)
    _tell_evidence(incident, judgement, book)
    return incident


def _add(incident: Incident, judgement: Judgement, now: datetime) -> None:
    Finding.objects.create(incident=incident, key=judgement.key, **_columns(judgement, now))


def _columns(judgement: Judgement, now: datetime) -> dict[str, Any]:
    return {
        "detector": judgement.detector[:8], "klass": judgement.klass, "stage": judgement.stage.value,
        "entity": judgement.entity[:150], "attempt": judgement.attempt, "severity": judgement.severity,
        "sentence": judgement.sentence[:MAX_SENTENCE], "began_at": moment(judgement.began),
        "found_at": moment(judgement.at), "facts": dict(judgement.facts),
        "confirmed_at": now if judgement.stage is Stage.CONFIRMED else None,
        "cleared_at": now if judgement.stage is Stage.CLEARED else None,
        "evidence": [
            {"at": line.at, "entity": line.entity, "weight": line.weight, "text": line.text}
            for line in judgement.evidence
        ],
    }  # fmt: skip


def _change(row: Finding, judgement: Judgement, now: datetime, book: Book) -> Incident:
    """Update a finding that came again; a change of its stage is told."""
    moved = row.stage != judgement.stage.value
    columns = _columns(judgement, now)
    columns["confirmed_at"] = row.confirmed_at or columns["confirmed_at"]
    columns["found_at"] = row.found_at
    Finding.objects.filter(pk=row.pk).update(**columns)
    if moved:
        _tell_finding(row.incident, judgement, book)
    return row.incident


_KINDS = {Stage.SUSPECT: "finding", Stage.CONFIRMED: "confirmed", Stage.CLEARED: "cleared"}


def _tell_finding(incident: Incident, judgement: Judgement, book: Book) -> None:
    told = sentences.finding(judgement)
    book.tell(
        stream(incident), _KINDS[judgement.stage], told, at=moment(judgement.at),
        actor_kind=DETECTOR, actor=judgement.detector,
    )  # fmt: skip
    _tell_evidence(incident, judgement, book)


def _tell_evidence(incident: Incident, judgement: Judgement, book: Book) -> None:
    if judgement.evidence and judgement.stage is not Stage.CLEARED:
        told = sentences.evidence(judgement)
        at = moment(judgement.at)
        book.tell(stream(incident), "finding", told, at=at, actor_kind=DETECTOR, actor=judgement.detector)


def _weigh(incident: Incident, now: datetime, book: Book) -> None:
    """Bring class, title, blame and stage of an incident up to its findings."""
    found = queries.diagnosis(incident, now)
    if found is None:
        return
    if found.klass != incident.klass:
        told = sentences.risen(incident.klass, found.klass)
        book.tell(stream(incident), "risen", told, actor_kind=DETECTOR)
    if found.confirmed and incident.confirmed_at is None:
        incident.confirmed_at = now
    _set(incident, found)
    incident.save(update_fields=[*_WEIGHED, "confirmed_at"])
    shown(incident)
    if found.cleared_up and incident.state == IncidentState.OPEN and not _ours(incident):
        _recovered(incident, now, book)


_WEIGHED = ("attempt", "klass", "severity", "title", "began_at", "blamed", "cleared", "root_cause")


def _set(incident: Incident, found: Diagnosis) -> None:
    numbers = [item for item in incident.findings.values_list("attempt", flat=True) if item is not None]
    incident.attempt = max(numbers, default=incident.attempt)
    incident.klass, incident.severity = found.klass, found.severity
    incident.title, incident.began_at = found.title[:MAX_SENTENCE], moment(found.began)
    incident.blamed = [{"entity": blame.entity, "score": blame.score, "margin": blame.margin} for blame in found.blamed]
    incident.cleared, incident.root_cause = list(found.cleared), found.root_cause


def _ours(incident: Incident) -> bool:
    """Tell whether we have laid hands on the attempt; what follows is then ours to close."""
    attempt = Attempt.objects.filter(run=incident.run, number=incident.attempt or 0).first()
    return attempt is not None and (attempt.stopping_at is not None or attempt.state == AttemptState.EXITED)


def _recovered(incident: Incident, now: datetime, book: Book) -> None:
    going = Incident.objects.filter(pk=incident.pk, state=IncidentState.OPEN)
    if going.update(state=IncidentState.RESOLVED, resolved_at=now, mitigated_at=now):
        incident.state, incident.resolved_at = IncidentState.RESOLVED, now
        told = sentences.resolved(incident.run.name if incident.run else None, "it recovered by itself")
        tell_both(incident, "resolved", told, book, key=f"incident:{incident.pk}:resolved")
