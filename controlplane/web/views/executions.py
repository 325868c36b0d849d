"""What a person does to a runbook execution."""

from collections.abc import Callable
from datetime import datetime

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_POST

from controlplane.domain.errors import NotFound
from controlplane.runbooks import actions
from controlplane.runbooks.models import Execution
from controlplane.web.views.common import act, answered
from controlplane.web.views.incidents import ACTS, acts_of

Work = Callable[[Execution, str, datetime], object]

RIGHTS = {
    "approve": "approve",
    "reject": "reject",
    "pause": "pause_runbook",
    "resume": "resume_runbook",
    "stop": "stop_runbook",
}


@require_POST
def do(request: HttpRequest, execution_id: int, name: str) -> HttpResponse:
    """Approve, reject, pause, resume or stop."""
    execution = Execution.objects.filter(pk=execution_id).first()
    if execution is None or name not in RIGHTS:
        raise NotFound(f"there is no execution {execution_id}")
    work: Work = getattr(actions, name)
    trouble = act(request, RIGHTS[name], lambda by, now: work(execution, by, now))
    incident_id = execution.incident_id
    return answered(request, trouble, f"/incidents/{incident_id}/", ACTS, lambda: acts_of(request, incident_id))
