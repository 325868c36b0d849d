"""The API's own page, from files served here, so that it works offline and under the strict CSP."""

import json
from collections.abc import Callable
from functools import wraps
from typing import Any

from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from ninja import NinjaAPI
from ninja.openapi.docs import DocsBase

from controlplane.access.queries import person_of_token
from controlplane.domain.errors import Unauthenticated
from controlplane.web.api import errors

_SETTINGS = {"layout": "BaseLayout", "deepLinking": True, "persistAuthorization": False, "tryItOutEnabled": False}


class Page(DocsBase):
    """Swagger UI without anything inline."""

    def render_page(self, request: HttpRequest, api: NinjaAPI, **kwargs: Any) -> HttpResponse:
        """Render the page around the OpenAPI document."""
        settings = {**_SETTINGS, "url": self.get_openapi_url(api, kwargs)}
        return render(request, "api/docs.html", {"settings": json.dumps(settings).replace("<", "\\u003c")})


def signed_in(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """Show a documentation view to people with a session and to programs with a token."""

    @wraps(view, assigned=(), updated=())
    def door(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if request.user.is_authenticated or _has_token(request):
            return view(request, *args, **kwargs)
        if request.headers.get("Authorization") or not request.accepts("text/html"):
            return errors.respond(Unauthenticated("send a bearer token, or sign in"))
        return redirect_to_login(request.get_full_path())

    return door


def _has_token(request: HttpRequest) -> bool:
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    return scheme.lower() == "bearer" and person_of_token(token) is not None
