"""Turn findings into incidents: correlate, weigh, tell.

One incident is one trouble of one run, however many findings and launches it
takes. Its class may rise as evidence comes in; a finding that comes again changes
its row and tells nothing twice. What a rule that is only observed would have said is
kept apart, and nothing follows from it.
"""

from collections.abc import Sequence
from datetime import datetime

from django.db import transaction

from controlplane.domain.chronicle import sentences
from controlplane.domain.chronicle.words import cut
from controlplane.domain.detection.modes import Mode
from controlplane.domain.diagnosis.classes import Family, explains, rank_of
from controlplane.domain.diagnosis.diagnose import Diagnosis
from controlplane.domain.diagnosis.group import IncidentFacts, comes_again, opens_anew, same_incident
from controlplane.domain.diagnosis.inhibit import family_of
from controlplane.domain.findings import Finding as Judgement
from controlplane.domain.findings import Stage
from controlplane.incidents import queries, rows
from controlplane.incidents.ending import cleared_up, close, explain
from controlplane.incidents.models import Finding, Incident, IncidentState, Observation
from controlplane.incidents.refuting import refute
from controlplane.incidents.telling import shown, stream, tell_both
from controlplane.runs.book import Book
from controlplane.runs.models import Run
from controlplane.runs.times import moment

DETECTOR = "detector"
MAX_TITLE = 300


def record(
    run: Run | None, findings: Sequence[Judgement], now: datetime, *, book: Book | None = None
) -> list[Incident]:
    """Open or update the incidents that these findings belong to, and return them.

    `run` None is the fleet. Part of the caller's transaction when there is one; with
    a `book` its owner writes the sentences. Causes are taken before what they explain.
    """
    if not findings:
        return []
    with transaction.atomic():
        mine = book or Book(now, DETECTOR)
        touched: dict[int, Incident] = {}
        for judgement in sorted(findings, key=lambda item: rank_of(item.klass)):
            incident = _take(run, judgement, now, mine)
            if incident is not None:
                touched[incident.pk] = incident
        for incident in touched.values():
            _weigh(incident, now, mine)
        if book is None:
            mine.write()
    return list(touched.values())


def _take(run: Run | None, judgement: Judgement, now: datetime, book: Book) -> Incident | None:
    """Write one finding into the incident it belongs to; None when it changes no incident."""
    known = _known(run, judgement)
    if known is not None:
        return _change(known, judgement, now, book)
    if judgement.mode == Mode.OBSERVE:
        _observe(run, judgement)
        return None
    if judgement.stage is Stage.CLEARED:
        return None
    going = _going(run)
    homes = [item for item in going if same_incident(_facts(item, run), judgement)]
    if not homes:
        return _open(run, judgement, going, now, book)
    return _join(min(homes, key=lambda item: (item.state != IncidentState.OPEN, -item.pk)), run, judgement, now, book)


def _known(run: Run | None, judgement: Judgement) -> Finding | None:
    known = Finding.objects.select_for_update(of=("self", "incident"), no_key=True).select_related("incident")
    unresolved = known.exclude(incident__state=IncidentState.RESOLVED)
    return unresolved.filter(key=rows.key_of(judgement), incident__run=run).first()


def _observe(run: Run | None, judgement: Judgement) -> None:
    """Keep what a rule in mode `observe` would have said, once per key and stage."""
    said = {
        "rule": (judgement.rule or judgement.detector)[:64], "klass": judgement.klass,
        "entity": judgement.entity[: rows.MAX_ENTITY], "attempt": judgement.attempt,
        "sentence": cut(judgement.sentence, rows.MAX_SENTENCE), "at": moment(judgement.at),
        "evidence": [{"at": line.at, "entity": line.entity, "weight": line.weight, "text": line.text}
                     for line in judgement.evidence],
        "facts": dict(judgement.facts),
    }  # fmt: skip
    Observation.objects.update_or_create(
        run=run, key=rows.key_of(judgement), stage=judgement.stage.value, defaults=said
    )


def _going(run: Run | None) -> list[Incident]:
    going = Incident.objects.select_for_update(no_key=True).filter(run=run).exclude(state=IncidentState.RESOLVED)
    return list(going.prefetch_related("findings"))


def _facts(incident: Incident, run: Run | None) -> IncidentFacts:
    known = list(incident.findings.all())
    prints = {f"{item.klass}:{item.facts['fingerprint']}" for item in known if item.facts.get("fingerprint")}
    return IncidentFacts(
        run=run.name if run else None, attempt=incident.attempt, klass=incident.klass, state=incident.state,
        severity=incident.severity, stage=Stage.CONFIRMED if incident.confirmed_at else Stage.SUSPECT,
        entities=frozenset(item.entity for item in known), fingerprints=frozenset(prints),
    )  # fmt: skip


def _open(
    run: Run | None, judgement: Judgement, going: Sequence[Incident], now: datetime, book: Book
) -> Incident:  # fmt: skip
    onset = judgement.facts.get("onset_step")
    incident = Incident.objects.create(
        run=run, attempt=judgement.attempt, klass=judgement.klass, severity=judgement.severity,
        title=cut(judgement.sentence, MAX_TITLE), began_at=moment(judgement.began), opened_at=now,
        onset_step=onset if isinstance(onset, int) else run.high_water_step if run else None,
        quiet=queries.silenced(run, now),
    )  # fmt: skip
    _add(incident, judgement, now)
    for old in going:
        if opens_anew(_facts(old, run), judgement) and explains(judgement.klass, old.klass):
            explain(old, incident, now, book)
    _tell_opened(incident, judgement, now, book)
    return incident


def _tell_opened(incident: Incident, judgement: Judgement, now: datetime, book: Book) -> None:
    found = queries.diagnosis(incident, now)
    if found is not None:
        told = sentences.opened(found, run=incident.run.name if incident.run else None)
        if incident.quiet:
            told += " Pages are silenced."
        key = f"incident:{incident.pk}:opened"
        tell_both(incident, "opened", told, book, key=key, actor=judgement.detector)
    _tell_evidence(incident, judgement, book)


def _join(incident: Incident, run: Run | None, judgement: Judgement, now: datetime, book: Book) -> Incident:
    """Add a finding to an incident that goes on; the same failure again opens a mitigated one once more.

    Whoever had acknowledged it was told that it is over, so they have to be called again.
    """
    if comes_again(_facts(incident, run), judgement) and (judgement.attempt or 0) > (incident.attempt or 0):
        incident.state, incident.mitigated_at = IncidentState.OPEN, None
        incident.acknowledged_at, incident.acknowledged_by = None, ""
        incident.save(update_fields=["state", "mitigated_at", "acknowledged_at", "acknowledged_by"])
        key = f"incident:{incident.pk}:again:{judgement.attempt}"
        tell_both(incident, "risen", sentences.again(judgement.attempt or 0), book, key=key)
    _add(incident, judgement, now)
    if incident.flapping_until is None:
        _tell_finding(incident, judgement, book)
    refute(incident, judgement, now, book)
    return incident


def _add(incident: Incident, judgement: Judgement, now: datetime) -> None:
    Finding.objects.create(incident=incident, key=rows.key_of(judgement), **rows.columns(judgement, now))


def _change(row: Finding, judgement: Judgement, now: datetime, book: Book) -> Incident:
    """Update a finding that came again; a change of its stage is told."""
    moved = row.stage != judgement.stage.value
    Finding.objects.filter(pk=row.pk).update(**rows.changes(row, judgement, now))
    incident = _moved_home(row, judgement, now, book)
    if moved and incident.flapping_until is None:
        _tell_finding(incident, judgement, book)
    return incident


def _moved_home(row: Finding, judgement: Judgement, now: datetime, book: Book) -> Incident:
    """A warning that turned into what stops the run joins the incident that is open about that."""
    own, run = row.incident, row.incident.run
    family = family_of(judgement.klass, judgement.severity, judgement.stage)
    if family is not Family.STOP or _facts(own, run).family is Family.STOP or own.findings.exclude(pk=row.pk).exists():
        return own
    homes = [item for item in _going(run) if item.pk != own.pk and same_incident(_facts(item, run), judgement)]
    if not homes or homes[0].findings.filter(key=row.key).exists():
        return own
    Finding.objects.filter(pk=row.pk).update(incident=homes[0])
    Incident.objects.filter(pk=own.pk).update(explained_by=homes[0])
    close(own, f"it is part of incident {homes[0].pk}", now, book)
    return homes[0]


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
    _set(incident, found, now)
    incident.save(update_fields=[*_WEIGHED, "confirmed_at"])
    shown(incident)
    if found.cleared_up:
        cleared_up(incident, found, now, book)


_WEIGHED = ("attempt", "klass", "severity", "title", "began_at", "blamed", "cleared", "root_cause", "quiet")


def _set(incident: Incident, found: Diagnosis, now: datetime) -> None:
    numbers = [item for item in incident.findings.values_list("attempt", flat=True) if item is not None]
    incident.attempt = max(numbers, default=incident.attempt)
    incident.klass, incident.severity = found.klass, found.severity
    incident.title, incident.began_at = cut(found.title, MAX_TITLE), moment(found.began)
    incident.blamed = [{"entity": blame.entity, "score": blame.score, "margin": blame.margin} for blame in found.blamed]
    incident.cleared, incident.root_cause = list(found.cleared), found.root_cause
    incident.quiet = queries.silenced(incident.run, now)
