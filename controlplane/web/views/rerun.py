"""What today's rules would have done about an incident: asked for and read here."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from controlplane.access.policy import require
from controlplane.domain.errors import MiddlewatchError
from controlplane.replay import rerun as reruns
from controlplane.web.errors import answer
from controlplane.web.read import incident as incidents
from controlplane.web.read import rerun as read
from controlplane.web.views.common import clock, rights


@never_cache
@require_http_methods(["GET", "POST"])
def page(request: HttpRequest, incident_id: int) -> HttpResponse:
    """Show the newest rerun; a POST asks for another."""
    incident = incidents.load(incident_id)
    if request.method == "GET":
        return _shown(request, incident_id)
    typed = request.POST.get("settings", "")
    try:
        require(request.user, "replay")
        reruns.ask(incident, read.overrides(typed), request.user.get_username(), clock())
    except MiddlewatchError as error:
        return _shown(request, incident_id, status=answer(error).status, trouble=str(error), typed=typed)
    return redirect(request.path)


def _shown(request: HttpRequest, incident_id: int, *, status: int = 200, **more: Any) -> HttpResponse:
    facts = read.state(incidents.load(incident_id), rights(request), clock())
    return render(request, "web/rerun.html", {"nav": "incidents", "topics": "count", **facts, **more}, status=status)
