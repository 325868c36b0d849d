"""The page where an admin lets people in, changes their roles and puts them aside."""

import logging
from datetime import UTC, datetime

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from controlplane.access import actions, policy, queries
from controlplane.access.forms import PersonForm
from controlplane.access.models import Role
from controlplane.domain.errors import Conflict, Invalid, MiddlewatchError

log = logging.getLogger(__name__)


@never_cache
@require_http_methods(["GET", "POST"])
def index(request: HttpRequest) -> HttpResponse:
    """List people; a POST adds one and shows their one-time password once."""
    policy.require(request.user, "manage_people")
    form = PersonForm(request.POST or None, label_suffix="")
    added = None
    if form.is_valid():
        try:
            person, password = actions.create_person(form.cleaned_data["name"], form.cleaned_data["role"], _now())
            log.info("%s let %s in as %s", request.user, person.username, person.role)
            added, form = {"name": person.username, "password": password}, PersonForm(label_suffix="")
        except (Conflict, Invalid) as error:
            form.add_error("name", error.why if isinstance(error, Invalid) else str(error))
    context = {"people": queries.people(), "form": form, "added": added, "roles": Role.choices}
    return render(request, "access/people.html", context, status=400 if form.is_bound else 200)


@require_POST
def change(request: HttpRequest, name: str) -> HttpResponse:
    """Change a person's role, put them aside, take them back, or make them a one-time link."""
    policy.require(request.user, "manage_people")
    do, role = request.POST.get("do", ""), request.POST.get("role", "")
    try:
        messages.success(request, _change(name, do, role))
        log.info("%s did %s to %s %s", request.user, do, name, role)
    except MiddlewatchError as error:
        messages.error(request, str(error))
    return redirect("access:people")


def _change(name: str, do: str, role: str) -> str:
    match do:
        case "role":
            actions.set_role(name, role)
            return f"{name} is {role} now."
        case "put_aside":
            actions.set_active(name, active=False)
            return f"{name} cannot sign in any more."
        case "take_back":
            actions.set_active(name, active=True)
            return f"{name} can sign in again."
        case "link":
            return f"One-time link for {name}: {actions.make_sign_in_link(queries.person(name), _now())}"
        case _:
            raise Invalid("do", "must be role, put_aside, take_back or link")


def _now() -> datetime:
    return datetime.now(UTC)
