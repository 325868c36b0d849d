"""Incidents: the list, the page, its buttons, its chronicle."""

from datetime import datetime

from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from controlplane.access.policy import require
from controlplane.chronicle import queries as chronicle
from controlplane.domain.errors import MiddlewatchError
from controlplane.incidents import actions
from controlplane.incidents.models import Incident, IncidentState
from controlplane.runbooks.models import Execution
from controlplane.web.errors import answer
from controlplane.web.export import incident_markdown
from controlplane.web.present import badges
from controlplane.web.present import chronicle as present
from controlplane.web.present.words import Badge
from controlplane.web.read import incident as read
from controlplane.web.views.common import act, answered, clock, rights

PAGE_ROWS = 50
MAX_ENTRIES = 500
ACTS = "web/parts/incident_acts.html"


@require_GET
def index(request: HttpRequest) -> HttpResponse:
    """List incidents, newest first, filtered by state and run."""
    state, run = request.GET.get("state", ""), request.GET.get("run", "")[:100]
    found = Incident.objects.select_related("run")
    if state in IncidentState.values:
        found = found.filter(state=state)
    if run:
        found = found.filter(run__name=run)
    page = Paginator(found, PAGE_ROWS).get_page(request.GET.get("page"))
    rows = [
        (one, badges.of(badges.INCIDENT, one.state), badges.of(badges.SEVERITY, one.severity), _need(one))
        for one in page
    ]
    facts = {
        "nav": "incidents",
        "rows": rows,
        "page": page,
        "state": state,
        "run": run,
        "states": IncidentState.values,
        "topics": "count",
    }
    return render(request, "web/incidents.html", facts)


def _need(incident: Incident) -> Badge | None:
    """Show who has to act; what is over is not looked into."""
    if incident.state != IncidentState.OPEN:
        return None
    return badges.NEED.get(read.need(incident, read.newest_execution(incident)))


@never_cache
@require_GET
def page(request: HttpRequest, incident_id: int) -> HttpResponse:
    """Show one incident: state, buttons, chronicle, evidence."""
    now = clock()
    incident = read.load(incident_id)
    facts = read.state(incident, now)
    stream = f"incident:{incident.pk}"
    told = list(chronicle.entries(stream).order_by("-number")[:MAX_ENTRIES])
    shown = {
        "nav": "incidents",
        "topic": stream,
        "topics": f"{stream},count",
        "lines": present.lines(told),
        "known": told[0].number if told else 0,
        "groups": present.GROUPS,
        "note_url": f"/incidents/{incident.pk}/note/",
        "export_url": f"/incidents/{incident.pk}/chronicle.md",
    }
    return render(request, "web/incident.html", {**facts, **_acts(request, incident, facts["execution"], now), **shown})


@never_cache
@require_GET
def acts(request: HttpRequest, incident_id: int) -> HttpResponse:
    """Answer the buttons of this viewer, for a page whose incident changed."""
    return render(request, ACTS, {**acts_of(request, incident_id), "oob": True})


def acts_of(request: HttpRequest, incident_id: int) -> dict[str, object]:
    """Read the buttons anew, after an act."""
    incident = read.load(incident_id)
    return _acts(request, incident, read.newest_execution(incident), clock())


def _acts(request: HttpRequest, incident: Incident, execution: Execution | None, now: datetime) -> dict[str, object]:
    return read.acts(incident, execution, rights(request), now, viewer=request.user.get_username())


@require_POST
def acknowledge(request: HttpRequest, incident_id: int) -> HttpResponse:
    """Say that somebody looks."""
    incident = read.load(incident_id)
    trouble = act(request, "acknowledge", lambda by, now: actions.acknowledge(incident, by, now))
    return answered(request, trouble, f"/incidents/{incident_id}/", ACTS, lambda: acts_of(request, incident_id))


@require_POST
def note(request: HttpRequest, incident_id: int) -> HttpResponse:
    """Add a note; the entry itself reaches every page by the socket, this one's included."""
    incident = read.load(incident_id)
    text = request.POST.get("text", "")
    status, trouble = 200, ""
    try:
        require(request.user, "note")
        actions.note(incident, text, request.user.get_username(), clock())
    except MiddlewatchError as error:
        status, trouble = answer(error).status, str(error)
    if getattr(request, "htmx", False):
        facts = {"trouble": trouble}
        return render(request, "web/parts/note_answer.html", facts, status=status)
    return answered(request, trouble, f"/incidents/{incident_id}/#chronicle", ACTS, dict)


@require_GET
def chronicle_markdown(_request: HttpRequest, incident_id: int) -> HttpResponse:
    """Hand out the chronicle as Markdown."""
    incident = read.load(incident_id)
    text = incident_markdown(incident, clock())
    response = HttpResponse(text, content_type="text/markdown; charset=utf-8")
    response["Content-Disposition"] = f'inline; filename="incident-{incident.pk}.md"'
    return response
