"""Runs: the list, the page, its numbers, and the hold."""

from datetime import UTC, datetime

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from controlplane.chronicle import queries as chronicle
from controlplane.domain.errors import Invalid
from controlplane.runs import actions, saving
from controlplane.web.present import chronicle as present
from controlplane.web.read import fleet, series
from controlplane.web.read import run as read
from controlplane.web.views.common import act, answered, clock, rights

MAX_ENTRIES = 100
ACTS = "web/parts/run_acts.html"


@never_cache
@require_GET
def index(request: HttpRequest) -> HttpResponse:
    """List the runs."""
    facts = fleet.state(clock())
    return render(request, "web/runs.html", {"nav": "runs", "topics": "fleet,count", **facts})


@never_cache
@require_GET
def page(request: HttpRequest, name: str) -> HttpResponse:
    """Show one run."""
    run, now = read.load(name), clock()
    stream = f"run:{run.name}"
    told = list(chronicle.entries(stream).order_by("-number")[:MAX_ENTRIES])
    shown = {
        "nav": "runs",
        "topic": stream,
        "topics": f"{stream},count",
        "lines": present.lines(told),
        "known": told[0].number if told else 0,
        "groups": present.GROUPS,
    }
    return render(request, "web/run.html", {**read.state(run, now), **read.acts(run, rights(request)), **shown})


@never_cache
@require_GET
def numbers(request: HttpRequest, name: str) -> JsonResponse:
    """Hand out the points of the charts, received after `since` (seconds since the epoch)."""
    run = read.load(name)
    return JsonResponse(series.whole(run, _since(request.GET.get("since", ""))))


def _since(text: str) -> datetime | None:
    if not text:
        return None
    try:
        return datetime.fromtimestamp(float(text), UTC)
    except (ValueError, OverflowError, OSError):
        raise Invalid("since", "must be seconds since the epoch") from None


@never_cache
@require_GET
def acts(request: HttpRequest, name: str) -> HttpResponse:
    """Answer the buttons of this viewer."""
    return render(request, ACTS, {**read.acts(read.load(name), rights(request)), "oob": True})


@require_POST
def hold(request: HttpRequest, name: str) -> HttpResponse:
    """Keep automation's hands off a run."""
    run = read.load(name)
    trouble = act(request, "hold_run", lambda by, now: actions.hold(run, by, now))
    return _answered(request, name, trouble)


@require_POST
def resume(request: HttpRequest, name: str) -> HttpResponse:
    """Give a run back to automation."""
    run = read.load(name)
    trouble = act(request, "resume_run", lambda by, now: actions.resume(run, by, now))
    return _answered(request, name, trouble)


@require_POST
def save_now(request: HttpRequest, name: str) -> HttpResponse:
    """Ask the training for a checkpoint."""
    run = read.load(name)
    trouble = act(request, "save_now", lambda by, now: saving.save_now(run, by, now))
    return _answered(request, name, trouble)


def _answered(request: HttpRequest, name: str, trouble: str) -> HttpResponse:
    return answered(
        request, trouble, f"/runs/{name}/", ACTS, lambda: read.acts(read.load(name), rights(request))
    )  # fmt: skip
