"""The one place where errors become answers.

Pages, fragments and the operators' REST read the same table, so an error of
`domain/errors.py` has one status and one name everywhere.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass

from django.contrib import messages
from django.db import InterfaceError, OperationalError, connections
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.utils.http import url_has_allowed_host_and_scheme

from controlplane.domain.chronicle.sentences import full_stop
from controlplane.domain.errors import MiddlewatchError, Unavailable
from controlplane.web.present.words import sentence

RETRY_AFTER_S = 5


@dataclass(frozen=True, slots=True)
class Answer:
    """How one code of the error tree leaves the program."""

    status: int
    title: str


TABLE = {
    "invalid": Answer(400, "That does not make sense"),
    "unauthenticated": Answer(401, "Please sign in"),
    "forbidden": Answer(403, "Your role does not allow this"),
    "not_found": Answer(404, "There is nothing here"),
    "conflict": Answer(409, "Somebody moved first"),
    "refused": Answer(409, "A guard forbids this"),
    "lease_lost": Answer(409, "Somebody else took over"),
    "unavailable": Answer(503, "Not possible at the moment"),
    "error": Answer(500, "Something went wrong"),
}


def answer(error: MiddlewatchError) -> Answer:
    """Find the answer to an error; a code that is not in the table is a mistake of ours, hence 500."""
    return TABLE.get(error.code, TABLE["error"])


def body(error: MiddlewatchError) -> dict[str, str]:
    """Write an error for programs: `code`, `message`, and `field` where one is to blame."""
    field = getattr(error, "field", "")
    return {"code": error.code, "message": str(error), **({"field": field} if field else {})}


class ErrorPages:
    """Middleware: turn an expected failure of a view into a page, a flash or JSON."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        """Keep the next layer."""
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Pass every request on."""
        return self.get_response(request)

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        """Answer an error of the domain; leave the rest to Django."""
        if not isinstance(error, MiddlewatchError):
            return None
        if wants_json(request):
            return JsonResponse(body(error), status=answer(error).status)
        if request.method == "POST":
            return _back(request, error)
        return page(request, answer(error).status, answer(error).title, full_stop(sentence(str(error))))


def wants_json(request: HttpRequest) -> bool:
    """Whether a program asks rather than a person."""
    return request.path.startswith(("/api/", "/live/")) or request.path.endswith(".json")


def page(request: HttpRequest, status: int, title: str, why: str) -> HttpResponse:
    """Show a system page.

    Django answers errors in passing threads, where nobody else gives back, or leaves, a connection.
    """
    _leave_old_connections()
    try:
        return render(request, "web/system.html", {"status": status, "title": title, "why": why}, status=status)
    finally:
        _leave_old_connections()


def _leave_old_connections() -> None:
    """Close what is broken or too old; a connection inside a transaction belongs to whoever opened that."""
    for one in connections.all(initialized_only=True):
        if not one.in_atomic_block:
            one.close_if_unusable_or_obsolete()


def _back(request: HttpRequest, error: MiddlewatchError) -> HttpResponse:
    """Answer a form: say what went wrong on the page that it came from."""
    origin = request.META.get("HTTP_REFERER", "")
    if not url_has_allowed_host_and_scheme(origin, {request.get_host()}, require_https=request.is_secure()):
        return page(request, answer(error).status, answer(error).title, str(error))
    messages.error(request, f"{answer(error).title}: {error}")
    response = HttpResponse(status=303)
    response["Location"] = origin
    return response


def forbidden(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """Say which role is needed, as far as it is known."""
    return page(
        request, 403, TABLE["forbidden"].title, str(exception or "Ask an administrator for the role that this needs.")
    )


def csrf_failed(request: HttpRequest, reason: str = "") -> HttpResponse:
    """Explain a form without a valid token; most often the page was open since before a sign-in."""
    return page(request, 403, "This form is too old", f"Open the page again and repeat what you did. ({reason})")


def not_found(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """Say that there is nothing, and where to go on."""
    why = (
        str(exception)
        if isinstance(exception, Http404) and exception.args and isinstance(exception.args[0], str)
        else ""
    )
    return page(request, 404, TABLE["not_found"].title, why or "The address may be mistyped, or what it named is gone.")


def broken(request: HttpRequest) -> HttpResponse:
    """Answer a failure that nobody expected, or a database that is away, without touching database or session."""
    if isinstance(sys.exc_info()[1], OperationalError | InterfaceError):
        return _away(request)
    identity = str(getattr(request, "request_id", "") or request.headers.get("X-Request-ID", ""))[:64]
    return render(None, "web/broken.html", {"request_id": identity}, status=500)


def _away(request: HttpRequest) -> HttpResponse:
    """Say that the database does not answer: whoever has a session cannot even be recognised then."""
    away = Unavailable("the database does not answer")
    if wants_json(request):
        response: HttpResponse = JsonResponse(body(away), status=answer(away).status)
    else:
        response = render(None, "web/away.html", {"retry_after_s": RETRY_AFTER_S}, status=answer(away).status)
    response["Retry-After"] = str(RETRY_AFTER_S)
    return response
