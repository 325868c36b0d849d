"""Sign in, sign out, one-time links and the first own password.

A one-time link is not spent by opening its address: chat programs and mail
scanners open every address they see. The page that the GET shows holds one
button that posts; a small script presses it at once for a person who looks at
the page and is not signed in yet.
"""

from datetime import UTC, datetime

from django.contrib import messages
from django.contrib.auth import authenticate, login, logout, update_session_auth_hash
from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST

from controlplane.access import actions, door, queries, throttle
from controlplane.access.forms import PasswordForm, SignInForm
from controlplane.access.models import User
from controlplane.domain.errors import NotFound, Refused

_BACKEND = "django.contrib.auth.backends.ModelBackend"
_WRONG = "The name or the password is wrong. Both are case-sensitive."


@login_not_required
@never_cache
@sensitive_post_parameters("password")
@require_http_methods(["GET", "POST"])
def sign_in(request: HttpRequest) -> HttpResponse:
    """Show the form, or try the name and password that it sends."""
    form = SignInForm(request.POST or None, label_suffix="")
    status = 200
    if form.is_valid():
        try:
            user = _person(request, form)
        except Refused as refused:
            form.add_error(None, str(refused))
            status = 429
        else:
            if user is not None:
                login(request, user)
                return redirect(_next(request))
            form.add_error(None, _WRONG)
            status = 403
    return render(request, "access/sign_in.html", {"form": form, "next": _next(request)}, status=status)


def _person(request: HttpRequest, form: SignInForm) -> User | None:
    name, now = form.cleaned_data["name"], datetime.now(UTC)
    throttle.admit(name, request.META.get("REMOTE_ADDR", "")[:64], now)
    user = authenticate(request, username=name, password=form.cleaned_data["password"])
    if not isinstance(user, User):
        return None
    throttle.forget(name)
    return user


def _next(request: HttpRequest) -> str:
    wanted = request.POST.get("next") or request.GET.get("next") or "/"
    safe = url_has_allowed_host_and_scheme(wanted, {request.get_host()}, require_https=request.is_secure())
    return wanted if safe else "/"


@require_POST
def sign_out(request: HttpRequest) -> HttpResponse:
    """End the session."""
    logout(request)
    return redirect("access:sign-in")


@login_not_required
@never_cache
@require_http_methods(["GET", "POST"])
def link(request: HttpRequest, token: str) -> HttpResponse:
    """Show whom the one-time link signs in; spend it when the button is pressed."""
    now = datetime.now(UTC)
    if request.method != "POST":
        person = queries.person_of_link(token, now)
        return render(request, "access/link.html", {"person": person}, status=200 if person else 404)
    try:
        user = actions.use_sign_in_link(token, now)
    except NotFound:
        return render(request, "access/link.html", {"person": None}, status=404)
    login(request, user, backend=_BACKEND)
    door.came_by_link(request)
    return redirect("/")


@never_cache
@sensitive_post_parameters()
@require_http_methods(["GET", "POST"])
def password(request: HttpRequest) -> HttpResponse:
    """Let the person choose a new password."""
    assert isinstance(request.user, User)  # noqa: S101 - SignInRequired stands before this view
    form = PasswordForm(request.user, request.POST or None)
    if form.is_valid():
        actions.set_own_password(request.user, form.cleaned_data["new_password1"])
        update_session_auth_hash(request, request.user)
        messages.success(request, "Your new password is in use.")
        return redirect("/")
    facts = {"form": form, "must": door.must_choose_password(request)}
    return render(request, "access/password.html", facts, status=400 if form.is_bound else 200)
