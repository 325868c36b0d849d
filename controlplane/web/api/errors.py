"""Every refusal of the REST API has one shape: `{"code", "message", "field"?}`."""

import logging
from collections.abc import Callable
from functools import partial
from typing import Any

from django.contrib.auth.decorators import login_not_required
from django.db import OperationalError
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from ninja import NinjaAPI
from ninja.errors import AuthenticationError, HttpError, ValidationError

from controlplane.domain.errors import (
    Forbidden,
    Invalid,
    MiddlewatchError,
    NotFound,
    Unauthenticated,
    Unavailable,
)
from controlplane.web.errors import RETRY_AFTER_S, answer, body

log = logging.getLogger(__name__)

_HEADERS = {"unauthenticated": {"WWW-Authenticate": "Bearer"}, "unavailable": {"Retry-After": str(RETRY_AFTER_S)}}


def respond(error: MiddlewatchError) -> HttpResponse:
    """Answer an error of the domain by the one table."""
    return JsonResponse(body(error), status=answer(error).status, headers=_HEADERS.get(error.code))


def install(api: NinjaAPI) -> None:
    """Give `api` an answer to everything that may be raised."""
    for kind, translate in _TRANSLATIONS.items():
        api.add_exception_handler(kind, partial(_answer, translate))


def _answer(translate: Callable[[Any], MiddlewatchError], _request: HttpRequest, error: Exception) -> HttpResponse:
    return respond(translate(error))


@login_not_required
def unknown_address(request: HttpRequest, rest: str) -> HttpResponse:
    """Answer what no operation and no part of the ingest application answers."""
    del request
    return respond(NotFound(f"there is nothing at /api/v1/{rest}"))


def _unexpected(error: Exception) -> MiddlewatchError:
    log.error("a request failed unexpectedly", exc_info=error)
    return MiddlewatchError("something went wrong; the server's log says what")


def _invalid(error: ValidationError) -> Invalid:
    first: dict[str, Any] = error.errors[0]
    place = [str(part) for part in first["loc"]]
    named = place[2:] if place[:1] == ["body"] and len(place) > 2 else place[1:]  # noqa: PLR2004 - ("body", argument, field, …)
    return Invalid(".".join(named) or place[0], str(first["msg"]))


def _http(error: HttpError) -> MiddlewatchError:
    if error.status_code == 403:  # noqa: PLR2004
        return Forbidden(str(error))
    return Invalid("body", str(error))


_TRANSLATIONS: dict[type[Exception], Callable[[Any], MiddlewatchError]] = {
    Exception: _unexpected,
    OperationalError: lambda _: Unavailable("the database does not answer"),
    Http404: lambda error: NotFound(str(error)),
    HttpError: _http,
    AuthenticationError: lambda _: Unauthenticated("send a bearer token, or sign in"),
    ValidationError: _invalid,
    MiddlewatchError: lambda error: error,
}
