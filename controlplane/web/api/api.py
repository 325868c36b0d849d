"""Put the REST API together."""

from typing import Any

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest
from django.urls import URLPattern, URLResolver, include, path
from ninja import NinjaAPI, Router

from controlplane.access.policy import may, role_of
from controlplane.domain.access.policy import LEAST_ROLE
from controlplane.web.api import (
    docs,
    errors,
    events,
    executions,
    guards,
    incidents,
    nodes,
    notify,
    runbooks,
    runs,
    unrecognised,
)
from controlplane.web.api.auth import BEARER, SESSION, person
from controlplane.web.api.schemas import Me

PREFIX = "api/v1/"

DESCRIPTION = """What operators can see and do, for programs.

Authenticate with `Authorization: Bearer <token>` (`manage.py api-token PERSON NAME` makes one) or with the session of a
signed-in browser. Every refusal has the shape `{"code", "message", "field"}`; `code` is stable. Lists come in pages:
pass `next` of one page as `after` of the following one. What may be done depends on the role: see `GET /api/v1/me`."""

me = Router(tags=["me"])


@me.get("", response=Me)
def get_me(request: HttpRequest) -> dict[str, Any]:
    """Show who you are and what you may do."""
    who = person(request, "view")
    return {"name": who.username, "role": role_of(who), "may": [act for act in LEAST_ROLE if may(who, act)]}


def build() -> NinjaAPI:
    """Return the API with all its routes and its answers to errors."""
    api = NinjaAPI(
        title="Middlewatch",
        version="1",
        description=DESCRIPTION,
        auth=[BEARER, SESSION],
        docs=docs.Page(),
        docs_decorator=docs.signed_in,
        urls_namespace="api",
    )
    errors.install(api)
    for prefix, router in _ROUTERS.items():
        api.add_router(prefix, router)
    return api


_ROUTERS = {
    "/me": me,
    "/runs": runs.router,
    "/incidents": incidents.router,
    "/nodes": nodes.router,
    "/enrolment-tokens": nodes.enrolment,
    "/executions": executions.router,
    "/runbooks": runbooks.router,
    "/questions": runbooks.questions,
    "/events": events.router,
    "/notify": notify.router,
    "/guards": guards.router,
    "/unrecognised": unrecognised.router,
}


def _own_door(patterns: list[Any]) -> list[Any]:
    """Tell SignInRequired that these views look for tokens and sessions themselves."""
    for pattern in patterns:
        if isinstance(pattern, URLPattern):
            pattern.callback = login_not_required(pattern.callback)
    return patterns


api = build()
_patterns, _app_name, _namespace = api.urls

urlpatterns: list[URLPattern | URLResolver] = [
    path(PREFIX, include((_own_door(_patterns), _app_name), namespace=_namespace)),
    path(f"{PREFIX}<path:rest>", errors.unknown_address),
]
