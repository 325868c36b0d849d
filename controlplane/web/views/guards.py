"""The guards: how they stand, the kill switch, and how far automation may go."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from controlplane.domain.errors import NotFound
from controlplane.runbooks import modes, switches
from controlplane.runs import actions as runs
from controlplane.runs.models import Mode, Run
from controlplane.web.present.buttons import needs
from controlplane.web.read import guards as read
from controlplane.web.views.common import act, clock, rights

PAGE = "/guards/"
Turn = Callable[[Run | None, Mapping[str, str], str, datetime], object]

TURNS: Mapping[str, tuple[str, Turn, str]] = {
    "off": ("switch_off", lambda run, form, by, now: switches.off(run, by, form.get("why", ""), now), "is off"),
    "on": ("switch_on", lambda run, form, by, now: switches.on(run, by, now, form.get("backlog", "")), "is on again"),
    "reset": (
        "switch_on", lambda run, form, by, now: switches.reset(run, by, now, form.get("backlog", "")), "acts again",
    ),
}  # fmt: skip
"""What a switch can do: the right that it needs, the act, and how it stands afterwards."""


@never_cache
@require_GET
def page(request: HttpRequest) -> HttpResponse:
    """Show every guard with what is left of it; `?run=` of one run alone."""
    only = read.run_named(request.GET.get("run", ""))
    return render(request, "web/guards.html", {**_shell(), **read.state(rights(request), clock(), only=only)})


@never_cache
@require_http_methods(["GET", "POST"])
def switch(request: HttpRequest) -> HttpResponse:
    """Say what the kill switch will do; a POST does it."""
    form = request.GET if request.method == "GET" else request.POST
    run = read.run_named(form.get("run", ""))
    if request.method == "GET":
        return _switch(request, run)
    if form.get("do") not in TURNS:
        raise NotFound("automation is switched off or on, or its breaker is reset")
    right, turn, stands = TURNS[form["do"]]
    trouble = act(request, right, lambda by, now: turn(run, form.dict(), by, now))
    if trouble:
        return _switch(request, run, status=409, trouble=trouble)
    messages.success(request, f"Automation {stands} {f'for {run.name}' if run else 'everywhere'}.")
    return redirect(PAGE)


def _switch(request: HttpRequest, run: Run | None, *, status: int = 200, **more: Any) -> HttpResponse:
    facts = read.switch(run, rights(request), also=_also(request), now=clock())
    return render(request, "web/switch.html", {**_shell(), **facts, **more}, status=status)


def _also(request: HttpRequest) -> Run | None:
    """Return the run on whose page the switch was pressed."""
    return read.run_named(request.GET.get("from", ""))


@never_cache
@require_POST
def mode(request: HttpRequest) -> HttpResponse:
    """Set a run's switch; autopilot is asked for twice, the second time beside what it will be allowed to do."""
    run, wanted = runs_named(request), read.mode_of(request.POST)
    if wanted == Mode.AUTOPILOT and run.mode != wanted and not request.POST.get("sure"):
        facts = {**_shell(), **read.autopilot(run, clock()), "needs": needs("set_mode", rights(request))}
        return render(request, "web/autopilot.html", facts)
    trouble = act(request, "set_mode", lambda by, now: runs.set_mode(run, wanted, by, now))
    return _back(request, trouble, f"{run.name} is on {wanted} now.")


def runs_named(request: HttpRequest) -> Run:
    """Return the run of a form."""
    run = read.run_named(request.POST.get("run", ""))
    if run is None:
        raise NotFound("choose a run")
    return run


@never_cache
@require_POST
def runbook_mode(request: HttpRequest) -> HttpResponse:
    """Hold one runbook below the switch of a run, or of all; or take that back."""
    run, name = read.run_named(request.POST.get("run", "")), request.POST.get("runbook", "")
    wanted = request.POST.get("mode", "")
    trouble = act(request, "set_mode", lambda by, now: modes.set_mode(name, run, wanted, by, now))
    where = run.name if run else "all runs"
    to = "as far as its file says" if wanted == modes.AS_ITS_FILE else f"on {wanted} at most"
    return _back(request, trouble, f"{name} is {to} for {where} now.")


def _back(request: HttpRequest, trouble: str, told: str) -> HttpResponse:
    if trouble:
        messages.error(request, trouble)
    else:
        messages.success(request, told)
    return redirect(f"{PAGE}#modes")


def _shell() -> dict[str, Any]:
    return {"nav": "guards", "topics": "count"}
