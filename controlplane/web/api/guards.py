"""What keeps automation back and what is left of each budget; the kill switch, the breaker and the runbooks' modes."""

from datetime import UTC, datetime
from typing import Any, Literal

from django.http import HttpRequest
from ninja import Router, Schema
from pydantic import Field

from controlplane.runbooks import budgets, modes, switches
from controlplane.runs import queries as runs
from controlplane.runs.models import Run
from controlplane.web.api.auth import person
from controlplane.web.api.paging import Name

router = Router(tags=["guards"])


class BudgetOut(Schema):
    """One guard: how much of it is used and when more comes back; `open` says that automation may act for it."""

    name: str
    words: str
    used: int
    most: int
    refills_at: datetime | None
    open: bool


class StandingOut(Schema):
    """Whether automation may act; `off` is the kill switch, `open` the breaker."""

    off: bool
    by: str
    why: str
    since: datetime | None
    everywhere: bool
    open: bool
    opened_why: str
    opened_at: datetime | None
    opened_everywhere: bool
    words: str


class GuardsOut(Schema):
    """How automation stands, and every guard."""

    automation: StandingOut
    budgets: list[BudgetOut]


class PreviewOut(Schema):
    """What automation will be allowed to do once the run is on autopilot, in sentences."""

    sentences: list[str]


class OffIn(Schema):
    """Why automation is stopped; `run` left out means all runs."""

    run: str | None = None
    why: str = Field(default="", max_length=switches.MAX_WHY)


class OnIn(Schema):
    """What becomes of the trouble that was found meanwhile; `run` left out means all runs."""

    run: str | None = None
    backlog: Literal["process", "skip"] = "process"


class RunbookModeIn(Schema):
    """How far a runbook may go: watch, ask, autopilot, or file (as its file says); `run` left out means all runs."""

    run: str | None = None
    mode: str


@router.get("", response=GuardsOut)
def get_guards(request: HttpRequest, run: Name | None = None) -> dict[str, Any]:
    """Show how automation stands and what is left of each budget, for a run or for the fleet."""
    person(request, "view")
    return _guards(_run(run))


@router.get("/preview/{name}", response=PreviewOut)
def preview(request: HttpRequest, name: Name) -> dict[str, Any]:
    """Say what autopilot will be allowed to do on a run."""
    person(request, "view")
    return {"sentences": modes.preview(runs.run_named(name), _now())}


@router.post("/off", response=GuardsOut)
def switch_off(request: HttpRequest, wanted: OffIn | None = None) -> dict[str, Any]:
    """Pull the kill switch: no act begins any more; training goes on."""
    by, asked = person(request, "switch_off"), wanted or OffIn()
    switches.off(_run(asked.run), by.username, asked.why, _now())
    return _guards(_run(asked.run))


@router.post("/on", response=GuardsOut)
def switch_on(request: HttpRequest, wanted: OnIn | None = None) -> dict[str, Any]:
    """Let automation act again; what was found meanwhile is answered now or left to people."""
    by, asked = person(request, "switch_on"), wanted or OnIn()
    switches.on(_run(asked.run), by.username, _now(), asked.backlog)
    return _guards(_run(asked.run))


@router.post("/reset", response=GuardsOut)
def reset_breaker(request: HttpRequest, wanted: OnIn | None = None) -> dict[str, Any]:
    """Close the breaker; what happened before counts no more."""
    by, asked = person(request, "switch_on"), wanted or OnIn()
    switches.reset(_run(asked.run), by.username, _now(), asked.backlog)
    return _guards(_run(asked.run))


@router.post("/modes/{name}", response=GuardsOut)
def set_mode(request: HttpRequest, name: Name, wanted: RunbookModeIn) -> dict[str, Any]:
    """Let a runbook go at most so far, on a run or on all."""
    by = person(request, "set_mode")
    modes.set_mode(name, _run(wanted.run), wanted.mode, by.username, _now())
    return _guards(_run(wanted.run))


def _guards(run: Run | None) -> dict[str, Any]:
    return {"automation": switches.state(run), "budgets": budgets.of(run, _now())}


def _run(name: str | None) -> Run | None:
    return runs.run_named(name) if name else None


def _now() -> datetime:
    return datetime.now(UTC)
