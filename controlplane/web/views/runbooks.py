"""Runbooks: the list, and one definition with its history; a definition is changed in its file alone."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from controlplane.domain.errors import Invalid
from controlplane.web.read import runbooks as read
from controlplane.web.views.common import clock

MAX_ID_DIGITS = 15


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
    facts = read.page(name, now) | (read.tried(name, _incident(wanted), now) if wanted else {})
    return render(request, "web/runbook.html", {"nav": "runbooks", "topics": "count", **facts})


def _incident(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > MAX_ID_DIGITS:
        raise Invalid("incident", "must be the number of an incident")
    return int(text)
