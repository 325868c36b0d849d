"""A runbook execution: its page, and what a person does to it."""

from collections.abc import Callable, Mapping
from datetime import datetime

from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from controlplane.domain.errors import Invalid, NotFound
from controlplane.runbooks import actions, answering
from controlplane.runbooks.models import Execution
from controlplane.watch import wake
from controlplane.web.read import execution as read
from controlplane.web.views.common import act, answered, clock, rights
from controlplane.web.views.incidents import ACTS, acts_of

MAX_WHY = 2000
MAX_ID_DIGITS = 15

Work = Callable[[Execution, QueryDict, str, datetime], object]


def _approve(execution: Execution, form: QueryDict, by: str, now: datetime) -> None:
    """Take a yes only from who typed the run's name, or tapped twice: the page types it then."""
    if form.get("word", "").strip() != execution.run.name:
        raise Invalid("word", f"type {execution.run.name} to approve")
    number = _number(form)
    if number is None:
        raise Invalid("number", "look at what is proposed before you approve it")
    actions.approve(execution, by, now, number=number)


def _reject(execution: Execution, form: QueryDict, by: str, now: datetime) -> None:
    actions.reject(execution, by, now, form.get("why", "").strip()[:MAX_WHY], number=_number(form))


def _answer(execution: Execution, form: QueryDict, by: str, now: datetime) -> None:
    answering.answer(execution, form.get("answer", ""), by, now, form.get("note", ""))


def _number(form: QueryDict) -> int | None:
    """Read which question was looked at; it may have been asked anew meanwhile."""
    text = form.get("number", "")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= MAX_ID_DIGITS else None


WORKS: Mapping[str, tuple[str, Work]] = {
    "approve": ("approve", _approve),
    "reject": ("reject", _reject),
    "answer": ("approve", _answer),
    "pause": ("pause_runbook", lambda execution, _, by, now: actions.pause(execution, by, now)),
    "resume": ("resume_runbook", lambda execution, _, by, now: actions.resume(execution, by, now)),
    "stop": ("stop_runbook", lambda execution, _, by, now: actions.stop(execution, by, now)),
    "stop_after": ("stop_runbook", lambda execution, _, by, now: actions.stop_after(execution, by, now)),
    "undo": ("stop_runbook", lambda execution, _, by, now: actions.undo(execution, by, now)),
}
"""Each act with the right that it needs."""


@never_cache
@require_GET
def page(request: HttpRequest, execution_id: int) -> HttpResponse:
    """Show one execution, step by step."""
    viewer = request.user.get_username()
    facts = read.state(read.load(execution_id), rights(request), clock(), viewer=viewer)
    return render(request, "web/execution.html", {"nav": "incidents", "topics": "count", **facts})


@require_POST
def do(request: HttpRequest, execution_id: int, name: str) -> HttpResponse:
    """Do what a person wants of an execution; a worker carries it on at once."""
    execution = read.load(execution_id)
    if name not in WORKS:
        raise NotFound(f"an execution cannot {name}")
    right, work = WORKS[name]
    trouble = act(request, right, lambda by, now: work(execution, request.POST, by, now))
    if not trouble:
        wake.execution(execution_id)
    incident_id = execution.incident_id
    own = f"/executions/{execution_id}/"
    back = own if request.META.get("HTTP_REFERER", "").endswith(own) else f"/incidents/{incident_id}/"
    return answered(request, trouble, back, ACTS, lambda: acts_of(request, incident_id))
