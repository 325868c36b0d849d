"""Render what open pages need after a change; registered with the live layer.

Whatever is rendered here goes to every viewer, so it holds no form, no token and
no right of anybody: buttons are fetched by each page for itself.
"""

from collections.abc import Collection
from datetime import UTC, datetime
from typing import Any

from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.models import AnonymousUser
from django.template.loader import render_to_string

from controlplane.access.models import User
from controlplane.access.policy import may
from controlplane.chronicle import queries as chronicle
from controlplane.live import registry
from controlplane.live.registry import CHRONICLE, SERIES, STATE, Fragment
from controlplane.web import context
from controlplane.web.present.chronicle import lines
from controlplane.web.read import fleet, incident, run, series

MAX_ENTRIES = 500


def register() -> None:
    """Tell the live layer how topics look and who may follow them."""
    registry.register("incident", render_incident, allows=allows)
    registry.register("run", render_run, allows=allows)
    registry.register("fleet", render_fleet, allows=allows, also=("count",))
    registry.register("count", render_count, allows=allows)


def allows(user: AbstractBaseUser | AnonymousUser, _subject: str) -> bool:
    """Whoever may look at pages may follow them."""
    return isinstance(user, User) and may(user, "view")


def render_incident(subject: str, regions: Collection[str], since: int | None) -> Fragment:
    """Render an incident page's regions."""
    parts: list[str] = []
    if STATE in regions:
        facts = incident.state(incident.load(int(subject)), _now())
        parts = [
            _part("web/parts/incident_state.html", facts),
            _part("web/parts/incident_side.html", facts),
        ]
    return _with_chronicle(f"incident:{subject}", parts, regions, since)


def render_run(subject: str, regions: Collection[str], since: int | None) -> Fragment:
    """Render a run page's regions; the newest points travel as numbers, beside every change of state too."""
    parts = [_part("web/parts/run_body.html", run.state(run.load(subject), _now()))] if STATE in regions else []
    points = series.newest(subject) if SERIES in regions or STATE in regions else None
    return _with_chronicle(f"run:{subject}", parts, regions, since, points)


def render_fleet(_subject: str, regions: Collection[str], since: int | None) -> Fragment:
    """Render the fleet overview."""
    parts = [_part("web/parts/fleet_body.html", fleet.state(_now()))] if STATE in regions else []
    return _with_chronicle("fleet", parts, regions, since)


def render_count(_subject: str, _regions: Collection[str], _since: int | None) -> Fragment:
    """Render what the head of every page says: how many incidents are open, and where automation may not act."""
    shell = context.Shell(signed_in=True)
    parts = ("web/parts/open_count.html", "web/parts/automation.html")
    return Fragment(content="".join(_part(part, {"shell": shell}) for part in parts))


def _with_chronicle(
    stream: str, parts: list[str], regions: Collection[str], since: int | None, points: dict[str, Any] | None = None
) -> Fragment:
    """Add the entries after `since`, or the newest one alone when nobody knows what was sent."""
    newest = chronicle.last_number(stream)
    if CHRONICLE not in regions:
        return Fragment(content="".join(parts), seq=newest, newest=newest, series=points)
    after = max(0, newest - 1) if since is None else since
    told = list(chronicle.entries(stream, after=after)[:MAX_ENTRIES])
    if told:
        parts.append(render_to_string("web/parts/inbox.html", {"lines": lines(told)}))
    last = told[-1].number if told else newest
    return Fragment(content="".join(parts), seq=last, newest=max(newest, last), series=points)


def _part(template: str, facts: dict[str, Any]) -> str:
    return render_to_string(template, {**facts, "oob": True})


def _now() -> datetime:
    return datetime.now(UTC)
