"""A runbook execution: its page, and what a person does to it."""

from collections.abc import Callable
from datetime import datetime

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from controlplane.domain.errors import NotFound
from controlplane.runbooks import actions
from controlplane.runbooks.models import Execution
from controlplane.web.read import execution as read
from controlplane.web.views.common import act, answered, clock, rights
from controlplane.web.views.incidents import ACTS, acts_of

Work = Callable[[Execution, str, datetime], object]

RIGHTS = {
    "approve": "approve",
    "reject": "reject",
    "pause": "pause_runbook",
    "resume": "resume_runbook",
    "stop": "stop_runbook",
}


@never_cache
@require_GET
def page(request: HttpRequest, execution_id: int) -> HttpResponse:
    """Show one execution, step by step."""
    facts = read.state(read.load(execution_id), rights(request), clock())
    return render(request, "web/execution.html", {"nav": "incidents", "topics": "count", **facts})


@require_POST
def do(request: HttpRequest, execution_id: int, name: str) -> HttpResponse:
    """Approve, reject, pause, resume or stop."""
    execution = read.load(execution_id)
    if name not in RIGHTS:
        raise NotFound(f"an execution cannot {name}")
    work: Work = getattr(actions, name)
    trouble = act(request, RIGHTS[name], lambda by, now: work(execution, by, now))
    incident_id = execution.incident_id
    own = f"/executions/{execution_id}/"
    back = own if request.META.get("HTTP_REFERER", "").endswith(own) else f"/incidents/{incident_id}/"
    return answered(request, trouble, back, ACTS, lambda: acts_of(request, incident_id))
