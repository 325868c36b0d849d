"""Everything that the page of the guards shows, and what a switch would do."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.db.models import Q

from controlplane.domain.errors import Invalid
from controlplane.fleet.models import Command, CommandState
from controlplane.runbooks import backlog, budgets, modes, queries, registry
from controlplane.runbooks.models import Execution, RunbookMode
from controlplane.runs import queries as runs
from controlplane.runs.automation import FLEET, name_of
from controlplane.runs.models import Automation, Mode, Run, RunState
from controlplane.web.present import badges
from controlplane.web.present import guards as present
from controlplane.web.present.buttons import May, needs
from controlplane.web.present.guards import Alarm

MAX_RUNS = 20
"""Each run's budgets are read anew; of more runs one is chosen."""
MAX_NAMES = 500
MAX_GOING = 20
MAX_ALARMS = 20


def alarms() -> list[Alarm]:
    """Read what every page's head says: where automation is off, and where it only proposes."""
    hindered = Automation.objects.filter(Q(off_at__isnull=False) | Q(opened_at__isnull=False))
    rows = hindered.select_related("run").order_by("name")[:MAX_ALARMS]
    return sorted((present.alarm(row) for row in rows), key=lambda one: one.tone)


def state(may: May, now: datetime, *, only: Run | None = None) -> dict[str, Any]:
    """Read the page for one viewer; of one run alone where a person chose it."""
    going = list(Run.objects.exclude(state=RunState.COMPLETED).order_by("name")[:MAX_NAMES])
    rows = {row.name: row for row in Automation.objects.all()}
    going.sort(key=lambda run: present.switch_badge(rows.get(name_of(run))).tone == "good")
    found = list(registry.catalog().runbooks.values())
    return {
        "fleet": _switch(None, rows, now),
        "runs": [_switch(run, rows, now) for run in ([only] if only else going[:MAX_RUNS])],
        "names": [run.name for run in going],
        "only": only,
        "more": len(going) > MAX_RUNS,
        "modes": Mode.values,
        "runbooks": sorted(found, key=lambda one: (one.code, one.id)),
        "overrides": _overrides(),
        "needs_mode": needs("set_mode", may),
        "now": now,
    }


def _switch(run: Run | None, rows: Mapping[str, Automation], now: datetime) -> dict[str, Any]:
    row = rows.get(name_of(run))
    return {
        "run": run,
        "row": row,
        "badge": present.switch_badge(row, rows.get(FLEET)),
        "mode": badges.of(badges.MODE, run.mode) if run else None,
        "budgets": [_budget(one) for one in budgets.of(run, now)],
    }


def _budget(one: budgets.Budget) -> dict[str, Any]:
    return {"budget": one, "left": present.share(one.used, one.most)}


def _overrides() -> list[dict[str, Any]]:
    rows = RunbookMode.objects.select_related("run").order_by("runbook", "run__name")
    titles = {one.id: one.title for one in registry.catalog().runbooks.values()}
    return [
        {"row": row, "title": titles.get(row.runbook, row.runbook), "badge": badges.of(badges.MODE, row.mode)}
        for row in rows
    ]


def run_named(name: str) -> Run | None:
    """Return the run of a form, None for all of them; raise `NotFound` when there is none of that name."""
    return runs.run_named(name) if name else None


def switch(run: Run | None, may: May, *, also: Run | None, now: datetime) -> dict[str, Any]:
    """Read the page that says what a switch will do, before it is done; `also` is the run that it came from."""
    row = Automation.objects.filter(name=name_of(run)).first()
    where = f"for {run.name}" if run else present.EVERYWHERE
    off, opened = row is not None and row.off_at is not None, row is not None and row.opened_at is not None
    since = (row.off_at if off else row.opened_at) if row else None
    found = backlog.found_since(run, since).count() if since else 0
    will = present.will_go_on(where, found, breaker=not off) if since else _will_stop(run, where)
    return {
        "run": run,
        "row": row,
        "off": off,
        "opened": opened and not off,
        "where": where,
        "will": will,
        "found": found,
        "since": since,
        "other": also if run is None else None,
        "needs": needs("switch_on" if since else "switch_off", may),
        "now": now,
    }


def _will_stop(run: Run | None, where: str) -> present.Will:
    going = Execution.objects.filter(state__in=queries.LIVE).select_related("run")
    going = going.filter(run=run) if run else going
    waiting = Command.objects.filter(state=CommandState.PENDING).exclude(execution_id=None)
    waiting = waiting.filter(args__run=run.name) if run else waiting
    told = [f"{registry.readable(one).title} on {one.run.name}" for one in going[:MAX_GOING]]
    return present.will_stop(where, told, waiting.count())


def autopilot(run: Run, now: datetime) -> dict[str, Any]:
    """Read what autopilot will be allowed to do, before it is switched on."""
    return {"run": run, "allowed": [present.folded(line) for line in modes.preview(run, now)], "now": now}


def mode_of(form: Mapping[str, str]) -> str:
    """Read the mode of a form."""
    mode = form.get("mode", "")
    if mode not in Mode.values:
        raise Invalid("mode", f"must be one of {', '.join(Mode.values)}")
    return mode
