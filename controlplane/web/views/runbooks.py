"""Runbooks: the list, and one definition with its history; a definition is changed in its file alone."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from controlplane.access.policy import require
from controlplane.domain.errors import Invalid, MiddlewatchError
from controlplane.runbooks import starting
from controlplane.runs.queries import run_named
from controlplane.watch import wake
from controlplane.web.errors import answer
from controlplane.web.read import runbooks as read
from controlplane.web.views.common import clock, rights

MAX_ID_DIGITS = 15
INPUT = "input."


@never_cache
@require_GET
def index(request: HttpRequest) -> HttpResponse:
    """List the runbooks in force and the files that are not sound."""
    return render(request, "web/runbooks.html", {"nav": "runbooks", "topics": "count", **read.index()})


@never_cache
@require_GET
def page(request: HttpRequest, name: str) -> HttpResponse:
    """Show one definition; `?incident=` tries it on a past incident, without any effect."""
    now, wanted = clock(), request.GET.get("incident", "").strip()
    return _shown(request, name, read.tried(name, _incident(wanted), now) if wanted else {})


def _shown(request: HttpRequest, name: str, more: dict[str, Any], status: int = 200) -> HttpResponse:
    facts = {"nav": "runbooks", "topics": "count", **read.page(name, rights(request), clock()), **more}
    return render(request, "web/runbook.html", facts, status=status)


@never_cache
@require_POST
def start(request: HttpRequest, name: str) -> HttpResponse:
    """Start a runbook on a run by a person's word, with the inputs that its file asks for."""
    form = request.POST.dict()
    try:
        require(request.user, "start_runbook")
        run, given = run_named(str(form.pop("run", ""))), inputs(form)
        execution = starting.start(name, run, request.user.get_username(), clock(), given)
    except MiddlewatchError as error:
        more = {"start_trouble": str(error), "typed": form}
        return _shown(request, name, more, status=answer(error).status)
    wake.execution(execution.pk)
    return redirect(f"/executions/{execution.pk}/")


def inputs(form: dict[str, Any]) -> dict[str, str]:
    """Read what the file asks for; its fields are marked so that none meets a field of ours."""
    return {name.removeprefix(INPUT): str(value) for name, value in form.items() if name.startswith(INPUT)}


def _incident(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > MAX_ID_DIGITS:
        raise Invalid("incident", "must be the number of an incident")
    return int(text)
