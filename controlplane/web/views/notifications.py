"""The page about notifications: whom to tell of what, and whether that works."""

import logging
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from controlplane.access.policy import require
from controlplane.domain.errors import Invalid, MiddlewatchError
from controlplane.web.errors import answer
from controlplane.web.present import notifications as present
from controlplane.web.present.notifications import Form
from controlplane.web.read import notifications as read
from controlplane.web.views.common import clock, rights
from controlplane.web.views.notifying import DEEDS

log = logging.getLogger(__name__)

PAGE = "/settings/notifications/"


@never_cache
@require_http_methods(["GET", "POST"])
def page(request: HttpRequest) -> HttpResponse:
    """Show the page; a POST does one of its deeds."""
    if request.method == "GET":
        return _shown(request)
    try:
        good, told = _do(request)
    except MiddlewatchError as error:
        return _shown(request, trouble=str(error), status=answer(error).status)
    (messages.success if good else messages.error)(request, told)
    return redirect(PAGE)


def _do(request: HttpRequest) -> tuple[bool, str]:
    deed = DEEDS.get(request.POST.get("do", ""))
    if deed is None:
        raise Invalid("do", f"must be one of {', '.join(DEEDS)}")
    require(request.user, deed.act)
    good, told = deed.work(request.POST, request.user.get_username(), clock())
    log.info("%s did %s about notifications: %s", request.user, request.POST["do"], told)
    return good, told


def _shown(request: HttpRequest, *, trouble: str = "", status: int = 200) -> HttpResponse:
    facts = read.state(rights(request), clock())
    if trouble:
        facts = {name: _typed(value, request.POST) for name, value in facts.items()}
    may = rights(request)
    facts |= {
        "trouble": trouble, "topics": "count", "manage_needs": present.needs("manage_notifications", may),
        "maintain_needs": present.needs("maintain", may),
    }  # fmt: skip
    return render(request, "web/notifications.html", facts, status=status)


def _typed(value: Any, given: QueryDict) -> Any:
    """Fill a form, or a list of forms, with what was sent."""
    sent = {name: given.getlist(name) for name in given}
    if isinstance(value, Form):
        return present.typed(value, sent)
    if isinstance(value, list):
        return [_typed(one, given) for one in value]
    return value
