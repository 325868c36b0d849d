"""What every view needs: the clock, the person, and how a form is answered."""

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from controlplane.access.policy import may, require
from controlplane.domain.errors import MiddlewatchError
from controlplane.web.errors import answer

May = Callable[[str], bool]


def clock() -> datetime:
    """Read the clock, once per request."""
    return datetime.now(UTC)


def rights(request: HttpRequest) -> May:
    """Ask what the person of this request may do."""
    return partial(may, request.user)


def act(request: HttpRequest, name: str, work: Callable[[str, datetime], object]) -> str:
    """Check the right, do the work, and return what went wrong in words, empty when nothing did.

    `work` gets the person's name and the time.
    """
    try:
        require(request.user, name)
        work(request.user.get_username(), clock())
    except MiddlewatchError as error:
        return f"{answer(error).title}: {error}"
    return ""


def answered(
    request: HttpRequest, trouble: str, back: str, fragment: str, facts: Callable[[], dict[str, Any]]
) -> HttpResponse:
    """Answer a form: a fragment with the new buttons for a script, a redirect without one.

    A failed act answers 200 to a script, since the fragment carries the words; the
    REST API is where programs find status codes.
    """
    if getattr(request, "htmx", False):
        return render(request, fragment, {**facts(), "trouble": trouble, "oob": True})
    if trouble:
        messages.error(request, trouble)
    return redirect(back)
