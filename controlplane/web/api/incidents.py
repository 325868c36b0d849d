"""Incidents and their chronicles."""

from datetime import UTC, datetime
from typing import Any, Literal

from django.http import HttpRequest, HttpResponse
from ninja import Router, Status

from controlplane.chronicle import actions as chronicle
from controlplane.chronicle import queries as told
from controlplane.chronicle.models import Entry
from controlplane.domain.errors import NotFound
from controlplane.incidents import actions, queries
from controlplane.incidents.models import Incident, IncidentState
from controlplane.replay import rerun as reruns
from controlplane.replay.models import Rerun
from controlplane.web.api.auth import person
from controlplane.web.api.bodies import NoteIn, OptionalReasonIn, ReplayIn, SentenceIn
from controlplane.web.api.incident_schemas import IncidentBrief, IncidentOut, RerunOut
from controlplane.web.api.paging import DEFAULT_LIMIT, MAX_ID, Id, Limit, Name, Page, page
from controlplane.web.api.schemas import EntryOut
from controlplane.web.export import incident_markdown

router = Router(tags=["incidents"])

State = Literal["open", "mitigated", "resolved"]


@router.get("", response=Page[IncidentBrief], by_alias=True)
def list_incidents(
    request: HttpRequest,
    state: State | None = None,
    run: Name | None = None,
    after: Id | None = None,
    limit: Limit = DEFAULT_LIMIT,
) -> dict[str, Any]:
    """List incidents, newest first; `after` is an incident's id."""
    person(request, "view")
    rows = Incident.objects.filter(pk__lt=after or MAX_ID).select_related("run").order_by("-pk")
    if state:
        rows = rows.filter(state=IncidentState(state))
    if run:
        rows = rows.filter(run__name=run)
    return page(rows, limit, lambda incident: incident.pk)


@router.get("/{incident_id}", response=IncidentOut, by_alias=True)
def get_incident(request: HttpRequest, incident_id: Id) -> Incident:
    """Show one incident with its findings, suspects, decision and losses."""
    person(request, "view")
    return queries.incident_numbered(incident_id)


@router.get("/{incident_id}/chronicle", response=Page[EntryOut])
def get_chronicle(
    request: HttpRequest, incident_id: Id, after: int = 0, limit: Limit = DEFAULT_LIMIT
) -> dict[str, Any]:
    """Read the chronicle in order; `after` is an entry's number."""
    person(request, "view")
    incident = queries.incident_numbered(incident_id)
    return page(told.entries(f"incident:{incident.pk}", after=after), limit, lambda entry: entry.number)


@router.get("/{incident_id}/chronicle.md", openapi_extra={"responses": {200: {"content": {"text/markdown": {}}}}})
def get_chronicle_markdown(request: HttpRequest, incident_id: Id) -> HttpResponse:
    """Read the whole chronicle as Markdown."""
    person(request, "view")
    text = incident_markdown(queries.incident_numbered(incident_id), datetime.now(UTC))
    return HttpResponse(text, content_type="text/markdown; charset=utf-8")


@router.post("/{incident_id}/chronicle/{number}/correct", response={201: EntryOut})
def correct(request: HttpRequest, incident_id: Id, number: Id, better: SentenceIn) -> Status[Entry]:
    """Correct an entry: the original stays, the correction points at it."""
    by = person(request, "correct")
    wrong = told.entry(f"incident:{queries.incident_numbered(incident_id).pk}", number)
    return Status(201, chronicle.correct(wrong, better.sentence, now=datetime.now(UTC), actor=by.username))


@router.post("/{incident_id}/acknowledge", response=IncidentOut, by_alias=True)
def acknowledge(request: HttpRequest, incident_id: Id) -> Incident:
    """Say that you are looking at it; this stops nothing."""
    by = person(request, "acknowledge")
    actions.acknowledge(queries.incident_numbered(incident_id), by.username, datetime.now(UTC))
    return queries.incident_numbered(incident_id)


@router.post("/{incident_id}/resolve", response=IncidentOut, by_alias=True)
def resolve(request: HttpRequest, incident_id: Id, why: OptionalReasonIn | None = None) -> Incident:
    """Close the incident by your word; `reason` is its cause, if it is known."""
    by, cause = person(request, "resolve"), why.reason if why else ""
    incident = queries.incident_numbered(incident_id)
    actions.resolve_by_hand(incident, by.username, datetime.now(UTC), root_cause=cause)
    return queries.incident_numbered(incident_id)


@router.post("/{incident_id}/note", response={201: EntryOut})
def note(request: HttpRequest, incident_id: Id, new: NoteIn) -> Status[Entry]:
    """Add a note in Markdown to the chronicle."""
    by = person(request, "note")
    incident = queries.incident_numbered(incident_id)
    actions.note(incident, new.text, by.username, datetime.now(UTC))
    notes = told.entries(f"incident:{incident.pk}").filter(kind="note", actor=by.username)
    return Status(201, notes.order_by("-number")[0])


@router.get("/{incident_id}/replay", response=RerunOut)
def get_replay(request: HttpRequest, incident_id: Id) -> Rerun:
    """Show the newest replay of the incident under today's rules; its `report` is there once it is done."""
    person(request, "view")
    found = reruns.newest(queries.incident_numbered(incident_id))
    if found is None:
        raise NotFound(f"nobody asked for a replay of incident {incident_id}")
    return found


@router.post("/{incident_id}/replay", response={202: RerunOut})
def replay(request: HttpRequest, incident_id: Id, under: ReplayIn | None = None) -> Status[Rerun]:
    """Ask what today's rules would have done, with other `settings` if you like; it takes minutes."""
    by = person(request, "replay")
    incident = queries.incident_numbered(incident_id)
    return Status(202, reruns.ask(incident, under.settings if under else {}, by.username, datetime.now(UTC)))
