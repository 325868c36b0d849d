"""The page behind a one-time link in a message: it shows what it will do, and one button does it.

Opening it does nothing, since mail scanners and chat programs open every address they
see. No session is needed: the link speaks for the person it was sent to, whose role is
asked when the button is pressed.
"""

from datetime import datetime
from typing import Any

from django.contrib.auth.decorators import login_not_required
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render, resolve_url
from django.utils.http import urlencode
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from controlplane.access import links, queries, throttle
from controlplane.access.links import Link
from controlplane.access.models import User
from controlplane.access.policy import require
from controlplane.domain.errors import MiddlewatchError, NotFound, Refused
from controlplane.web import deeds
from controlplane.web.errors import answer
from controlplane.web.views.common import clock

PAGE = "web/act.html"
MAX_WHY = 2000


@login_not_required
@never_cache
@require_http_methods(["GET", "POST"])
def page(request: HttpRequest, token: str) -> HttpResponse:
    """Show what the link will do; do it when the button is pressed."""
    address, now = request.META.get("REMOTE_ADDR", "")[:64], clock()
    try:
        throttle.admit_link(address, now)
        link = links.look(token, now)
    except Refused as refused:
        return _said(request, 429, "Too many links", str(refused))
    except NotFound as dead:
        throttle.count_dead_link(address, now)
        return _said(request, 404, "This link does nothing any more", f"{dead}".capitalize())
    if not link.person and not request.user.is_authenticated:
        return redirect(f"{resolve_url('access:sign-in')}?{urlencode({'next': request.path})}")
    return _press(request, token, link, now) if request.method == "POST" else _show(request, link)


def _show(request: HttpRequest, link: Link) -> HttpResponse:
    facts: dict[str, Any] = {"link": link, "trouble": ""}
    try:
        deed = deeds.of(link)
        facts["shown"] = deed.show(link)
        require(_person(request, link), deed.right)
    except NotFound as gone:
        return _said(request, 404, "There is nothing here", str(gone))
    except MiddlewatchError as error:
        facts["trouble"] = str(error)
    return render(request, PAGE, facts)


def _press(request: HttpRequest, token: str, link: Link, now: datetime) -> HttpResponse:
    why = request.POST.get("why", "").strip()[:MAX_WHY]
    try:
        with transaction.atomic():
            deed = deeds.of(link)
            person = _person(request, link)
            require(person, deed.right)
            links.take(token, now)
            url, told = deed.show(link).url, deed.do(link, person.username, why, now)
    except MiddlewatchError as error:
        return _said(request, answer(error).status, answer(error).title, str(error))
    return _said(request, 200, told, "", url=url)


def _person(request: HttpRequest, link: Link) -> User:
    """Return for whom the link speaks; one that was sent to somebody else is not for who is signed in."""
    if not link.person:
        if not isinstance(request.user, User):
            raise Refused("sign in first")
        return request.user
    if request.user.is_authenticated and request.user.get_username() != link.person:
        raise Refused(f"this link was sent to {link.person}, and you are signed in as {request.user.get_username()}")
    return queries.person(link.person)


def _said(request: HttpRequest, status: int, title: str, text: str, *, url: str = "") -> HttpResponse:
    return render(request, PAGE, {"title": title, "text": text, "url": url}, status=status)
