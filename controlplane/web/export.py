"""An incident as Markdown: its facts, its losses and its whole chronicle."""

from collections.abc import Iterator
from datetime import UTC, datetime

from controlplane.chronicle import queries
from controlplane.chronicle.export import markdown
from controlplane.domain.chronicle.words import place
from controlplane.domain.diagnosis.classes import class_of
from controlplane.incidents.models import Incident


def incident_markdown(incident: Incident, now: datetime) -> str:
    """Return the incident for the review, a ticket or a hand-over."""
    told = queries.entries(f"incident:{incident.pk}")
    return markdown(f"Incident {incident.pk}: {incident.title}", told, now, facts=list(_facts(incident)))


def _facts(incident: Incident) -> Iterator[tuple[str, str]]:
    if incident.run is not None:
        attempt = f", attempt {incident.attempt}" if incident.attempt is not None else ""
        yield "Run", f"{incident.run.name}{attempt}"
    yield "Class", class_of(incident.klass).title
    yield "Severity", incident.severity
    yield "State", incident.state
    yield from _times(incident)
    yield from _losses(incident)
    for blame in incident.blamed:
        yield "Suspect", f"{place(str(blame.get('entity')))}, score {blame.get('score')}, margin {blame.get('margin')}"
    if incident.decision.get("runbook"):
        yield "Runbook", str(incident.decision["runbook"])
    yield "Root cause", incident.root_cause or "unknown"


def _times(incident: Incident) -> Iterator[tuple[str, str]]:
    acknowledged = f" by {incident.acknowledged_by}" if incident.acknowledged_by else ""
    for word, when, more in (
        ("Began", incident.began_at, ""),
        ("Detected", incident.opened_at, _after(incident.opened_at, incident.began_at)),
        ("Confirmed", incident.confirmed_at, ""),
        ("Acknowledged", incident.acknowledged_at, acknowledged),
        ("Decided", incident.decided_at, ""),
        ("Mitigated", incident.mitigated_at, _after(incident.mitigated_at, incident.began_at)),
        ("Resolved", incident.resolved_at, ""),
    ):
        if when is not None:
            yield word, f"{when.astimezone(UTC):%Y-%m-%d %H:%M:%S}{more}"


def _after(when: datetime | None, began: datetime) -> str:
    return f", {(when - began).total_seconds():.1f} s after it began" if when else ""


def _losses(incident: Incident) -> Iterator[tuple[str, str]]:
    losses = incident.losses
    confidence = f" ({losses['confidence']})" if losses.get("confidence") else ""
    for word, key, unit in (
        ("Steps lost", "steps", ""),
        ("Time lost", "seconds", " s"),
        ("GPU time lost", "gpu_hours", " GPU-hours"),
    ):
        if losses.get(key) is not None:
            yield word, f"{_number(losses[key])}{unit}{confidence}"


def _number(value: object) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
