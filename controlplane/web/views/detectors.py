"""The page where a run's detectors are set: what a change would have meant is seen before it is saved."""

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from controlplane.analytics import whatif
from controlplane.domain.access.policy import least_role
from controlplane.domain.errors import Invalid
from controlplane.runs import actions
from controlplane.runs.models import Run
from controlplane.web.read import detectors as read
from controlplane.web.read import run as runs
from controlplane.web.views.common import act, clock, rights


@never_cache
@require_http_methods(["GET", "POST"])
def page(request: HttpRequest, name: str) -> HttpResponse:
    """Show the settings; a POST previews them on last week's events, or saves them."""
    run = runs.load(name)
    if request.method == "GET":
        return _shown(request, run, run.policy)
    form = {key: str(value) for key, value in request.POST.items()}
    try:
        wanted = read.overrides(form)
    except Invalid as error:
        return _shown(request, run, {**run.policy, **_kept(form)}, trouble=str(error), status=400)
    if form.get("do") == "save":
        return _save(request, run, wanted)
    found = read.preview(whatif.compare(run, wanted, clock()))
    return _shown(request, run, wanted, preview=found)


def _kept(form: dict[str, str]) -> dict[str, Any]:
    """Keep what was typed, right or wrong, so that nobody types it twice."""
    return {key: text for key, text in form.items() if key in read.NAMES and text.strip()}


def _save(request: HttpRequest, run: Run, wanted: dict[str, Any]) -> HttpResponse:
    trouble = act(request, "set_policy", lambda by, now: actions.set_policy(run, wanted, by, now))
    if trouble:
        return _shown(request, run, wanted, trouble=trouble, status=403)
    messages.success(request, f"The settings of {run.name} are saved.")
    return redirect(request.path)


def _shown(request: HttpRequest, run: Run, wanted: dict[str, Any], *, status: int = 200, **more: Any) -> HttpResponse:
    may = rights(request)("set_policy")
    facts = {
        **read.state(run, wanted), "nav": "runs", "topics": "count", "may": may,
        "needs": "" if may else str(least_role("set_policy")), "saved": wanted == run.policy, **more,
    }  # fmt: skip
    return render(request, "web/detectors.html", facts, status=status)
