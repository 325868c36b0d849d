"""Let nobody past the door without a session, and nobody stay with a one-time password."""

from collections.abc import Callable
from typing import Any

from django.contrib.auth.middleware import LoginRequiredMiddleware
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, resolve_url
from django.utils.http import urlencode
from django_htmx.http import HttpResponseClientRedirect
from django_htmx.middleware import HtmxDetails

from controlplane.access.door import must_choose_password

_WITH_ONE_TIME_PASSWORD = frozenset({"access:password", "access:sign-out"})


class SignInRequired(LoginRequiredMiddleware):
    """Send strangers to the sign-in page, in a way that each kind of client understands.

    A view opens itself with Django's `login_not_required`.
    """

    def process_view(
        self, request: HttpRequest, view_func: Callable[..., Any], view_args: Any, view_kwargs: Any
    ) -> HttpResponseBase | None:
        """Leave open views alone before the session is looked at: they answer without a database, too."""
        if not getattr(view_func, "login_required", True):
            return None
        return super().process_view(request, view_func, view_args, view_kwargs)

    def handle_no_permission(  # type: ignore[override]
        self, request: HttpRequest, view_func: Callable[..., Any]
    ) -> HttpResponse:
        """Answer a request without a session: redirect a person, tell a program (401)."""
        htmx: HtmxDetails | None = getattr(request, "htmx", None)
        if htmx:
            back = urlencode({"next": htmx.current_url_abs_path or "/"})
            return HttpResponseClientRedirect(f"{resolve_url('access:sign-in')}?{back}")
        if not request.accepts("text/html"):
            body = {"code": "unauthenticated", "message": "sign in first", "field": None}
            return JsonResponse(body, status=401)
        return super().handle_no_permission(request, view_func)


class OwnPasswordRequired:
    """Lead people who signed in with a one-time password to choosing an own one."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        """Wrap the next layer."""
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Pass on."""
        return self.get_response(request)

    def process_view(
        self, request: HttpRequest, view_func: Callable[..., Any], args: object, kwargs: object
    ) -> HttpResponse | None:
        """Redirect unless the view is open to everybody or is the one that ends the matter."""
        del args, kwargs
        if not getattr(view_func, "login_required", True) or not must_choose_password(request):
            return None
        name = request.resolver_match.view_name if request.resolver_match else ""
        return None if name in _WITH_ONE_TIME_PASSWORD else redirect("access:password")
