"""Everything that a run page shows."""

from datetime import datetime, timedelta
from typing import Any

from controlplane.checkpoints import queries as checkpoints
from controlplane.domain.detection.view import RunView
from controlplane.domain.fleet.scheduling import OLD_AFTER_S
from controlplane.events.queries import step_series
from controlplane.fleet import hot, scheduler
from controlplane.fleet import queries as nodes
from controlplane.fleet.models import SchedulerJob
from controlplane.incidents.models import Incident, IncidentState
from controlplane.runs import queries as runs
from controlplane.runs import saving
from controlplane.runs.models import Attempt, Run, RunState
from controlplane.web.present import badges, buttons, fleet, words
from controlplane.web.present import run as present
from controlplane.web.present.buttons import May
from controlplane.web.present.ranks import CELL, GAP, PER_ROW, heat_cells, heat_words, rank_lines
from controlplane.web.read import account, series, unrecognised
from controlplane.web.read.fleet import blinds, halts
from controlplane.web.read.incident import need, newest_execution

MAX_CHECKPOINTS = 12
MAX_ATTEMPTS = 50
MAX_JOBS = 8
RATE_WINDOW = timedelta(minutes=5)


def load(name: str) -> Run:
    """Return the run, or raise `NotFound`."""
    return runs.run_named(name)


def state(run: Run, now: datetime) -> dict[str, Any]:
    """Read what changes on the page; the same for every viewer."""
    attempts = list(Attempt.objects.filter(run=run).order_by("-number")[:MAX_ATTEMPTS])
    attempt = attempts[0] if attempts else None
    view = runs.view(run)
    opened = list(Incident.objects.filter(run=run, state=IncidentState.OPEN).select_related("run"))
    hurt = any(halts(one) for one in opened)
    still = present.stands_still(run, attempt, hurt=hurt)
    return {
        "run": run,
        "attempt": attempt,
        "card": present.card(run, attempt, hurt=hurt, unseen=any(blinds(one) for one in opened)),
        "facts": _facts(run, attempt, now, still=still),
        "incidents": [(one, badges.NEED.get(need(one, newest_execution(one)))) for one in opened],
        "recent": Incident.objects.filter(run=run).exclude(state=IncidentState.OPEN)[:5],
        **account.shown(run, now),
        "saved": [(row, badges.of(badges.CHECKPOINT, row.state)) for row in checkpoints.of_run(run)[:MAX_CHECKPOINTS]],
        "restore": checkpoints.restore_point(run),
        "jobs": [(job, _said(job, now)) for job in scheduler.jobs(run.name, limit=MAX_JOBS)],
        "attempts": [(row, badges.of(badges.ATTEMPT, row.state)) for row in attempts],
        "ranks": rank_lines(view) if view else [],
        **_heat(view),
        **unrecognised.shown(run),
        "acts_signature": signature(run, saving.living(run)),
        "now": now,
    }


def _said(job: SchedulerJob, now: datetime) -> str:
    """Say where a job stands; what was not repeated for minutes is unknown, unless it is over."""
    if job.state not in scheduler.OVER and now - job.heard_at > timedelta(seconds=OLD_AFTER_S):
        return f"unknown, was {job.state.lower()}"
    who = f" by {job.by}" if job.by else ""
    return f"{job.state.lower()}{who}" + (f" ({job.reason})" if job.reason else "")


def acts(run: Run, may: May) -> dict[str, Any]:
    """Read the buttons of one viewer."""
    attempt = saving.living(run)
    return {
        "run": run,
        "acts_signature": signature(run, attempt),
        "acts_url": True,
        "run_buttons": [*buttons.run(run, may), buttons.save_now(run, may, saving.why_not(attempt))],
    }


def signature(run: Run, attempt: Attempt | None) -> str:
    """Name what the buttons depend on; a page fetches its own when this changes."""
    return f"{run.state}.{run.held}.{attempt.number if attempt else 0}"


def _facts(run: Run, attempt: Attempt | None, now: datetime, *, still: bool) -> list[tuple[str, str]]:
    points = step_series(run.name, since=now - RATE_WINDOW, limit=series.RATE_POINTS)
    rate = series.rate(points) if run.state == RunState.RUNNING and not still else None
    lost = ("Lost already", _lost(run)) if still else ("A crash now would lose", _exposed(run, now))
    spares, silent = fleet.spares(hot.heard(nodes.spares()), now)
    return [
        ("Attempt", str(attempt.number) if attempt else "–"),
        ("Step", words.number(run.high_water_step)),
        ("Heard last", _heard(run, now)),
        ("Throughput", f"{words.number(rate)} {series.unit(points)}" if rate is not None else "–"),
        lost,
        ("Spares that fit", f"{words.number(spares)}{silent}"),
        ("Mode", run.mode),
    ]


def _heard(run: Run, now: datetime) -> str:
    """Say which step arrived last and when, also while nobody judges what arrives."""
    newest = hot.run_step(run.name)
    return f"step {words.number(newest.step)}, {words.age(newest.received_at, now)}" if newest else "–"


def _lost(run: Run) -> str:
    """Say what the next restart repeats, also while an attempt starts that has no step of its own."""
    return words.plural(checkpoints.restore_point(run).lost_steps, "step")


def _exposed(run: Run, now: datetime) -> str:
    lost = checkpoints.exposed(run, now)
    return f"{words.plural(lost.steps, 'step')}, {words.span(lost.seconds)}" if lost else "–"


def _heat(view: RunView | None) -> dict[str, Any]:
    cells = heat_cells(view) if view else []
    columns, rows = min(len(cells), PER_ROW), -(-len(cells) // PER_ROW)
    return {
        "heat": cells, "heat_words": heat_words(cells), "heat_cell": CELL,
        "heat_width": columns * (CELL + GAP), "heat_height": rows * (CELL + GAP),
    }  # fmt: skip
