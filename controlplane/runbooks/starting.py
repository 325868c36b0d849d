"""A person starts a runbook: a planned change, a switch, a drill.

It runs through the same engine, under the same holds and beside the same guards as
what automation starts. What it does is recorded as planned work, so a stop that
somebody asked for is no interruption of the run.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction

from controlplane.domain.errors import Conflict, Invalid, Refused
from controlplane.domain.recovery.action import Kind, Param
from controlplane.domain.recovery.runbook import Runbook
from controlplane.incidents import actions as incidents
from controlplane.incidents import planned
from controlplane.incidents.models import Incident
from controlplane.runbooks import gate, registry
from controlplane.runbooks.definitions import keep
from controlplane.runbooks.models import Execution, ExecutionState
from controlplane.runbooks.queries import UNFINISHED, live_of
from controlplane.runs import queries as runs
from controlplane.runs.book import Book
from controlplane.runs.models import Attempt, Run, RunState

PERSON = "person"
MAX_INPUT = 500
OVER = (RunState.STOPPED, RunState.COMPLETED)


def start(runbook_id: str, run: Run, by: str, now: datetime, args: Mapping[str, str] | None = None) -> Execution:
    """Start a runbook on a run on a person's word; `args` are the inputs that its file asks for.

    Raises:
        NotFound: there is no such runbook.
        Invalid: an input is missing, unknown or not allowed; names it.
        Refused: nobody starts it by hand, automation is off, its own limit is used up, or the run is only
            watched, held or over.
        Conflict: another runbook works on the run.
    """
    runbook = registry.runbook(runbook_id)
    inputs = checked(runbook, args or {})
    with transaction.atomic():
        locked = Run.objects.select_for_update(no_key=True).get(pk=run.pk)
        attempt = _startable(runbook, locked)
        _check_uses(runbook, locked, now)
        book = Book(now, PERSON, by)
        incident = planned.open_planned(locked, attempt, _title(runbook, inputs), by, now, book=book)
        execution = _create(runbook, incident, attempt, inputs, by=by, now=now)
        book.write()
    return execution


def checked(runbook: Runbook, args: Mapping[str, str]) -> dict[str, str]:
    """Return the inputs of a runbook with their defaults; `Invalid` names one that is wrong."""
    wanted = dict(runbook.start or {})
    for name in args:
        if name not in wanted:
            raise Invalid(name[:60], f"is no input of {runbook.id}; known are {', '.join(wanted) or 'none'}")
    return {name: _input(name, param, args.get(name)) for name, param in wanted.items()}


def _input(name: str, param: Param, given: str | None) -> str:
    if given is None or not given.strip():
        if param.required:
            raise Invalid(name, f"is needed: {param.about}")
        return str(param.default)
    value = " ".join(given.split())
    if param.kind is Kind.CHOICE and value not in param.choices:
        raise Invalid(name, f"must be one of {', '.join(param.choices)}")
    if len(value) > MAX_INPUT or not value.isprintable():
        raise Invalid(name, f"must be at most {MAX_INPUT} printable characters")
    return value


def _startable(runbook: Runbook, run: Run) -> Attempt:
    """Return the attempt that it would work on; say why it may not."""
    if runbook.start is None or not runbook.enabled:
        raise Refused(f"nobody starts {runbook.id} by hand" if runbook.enabled else f"{runbook.id} is switched off")
    gate.may_act(runbook.id, run)
    if run.held:
        raise Refused(f"{run.name} is held by {run.held_by}")
    if run.state in OVER:
        raise Refused(f"{run.name} is {run.state}")
    if live_of(run).exists():
        raise Conflict(f"another runbook works on {run.name}")
    attempt = runs.newest_attempt(run)
    if attempt is None:
        raise Refused(f"{run.name} was never launched")
    return attempt


def _check_uses(runbook: Runbook, run: Run, now: datetime) -> None:
    """Hold people to the limit that the file sets as well."""
    limits = runbook.limits
    if limits.uses is None:
        return
    since = now - timedelta(seconds=limits.uses_s)
    used = Execution.objects.filter(run=run, runbook=runbook.id, created_at__gt=since).count()
    if used >= limits.uses:
        raise Refused(f"{runbook.id} was used {used} times on {run.name} within {limits.uses_s / 3600:g} h: its limit")


def _title(runbook: Runbook, inputs: Mapping[str, str]) -> str:
    said = "; ".join(value for value in inputs.values() if value)
    return f"{runbook.title}: {said}" if said else runbook.title


def _create(
    runbook: Runbook, incident: Incident, attempt: Attempt, inputs: Mapping[str, str], *, by: str, now: datetime
) -> Execution:
    keep(runbook, now)
    context: dict[str, Any] = {**inputs, "attempt": attempt.number, "decision": f"started by {by}", "rung": ""}
    return Execution.objects.create(
        runbook=runbook.id, version=runbook.version, digest=runbook.digest, incident=incident, run=attempt.run,
        attempt=attempt.number, state=ExecutionState.RUNNING, created_at=now, wake_at=now, approved_by=by,
        context={**context, "beside": True} if runbook.beside else context,
        key=f"{incident.pk}:{attempt.number}:1",
    )  # fmt: skip


def tidy(now: datetime) -> int:
    """Close the records of planned work whose execution is over; returns how many."""
    over = [item for item in planned.going() if not item.executions.filter(state__in=UNFINISHED).exists()]
    with transaction.atomic():
        book = Book(now)
        closed = sum(_close(item, now, book) for item in over)
        book.write()
    return closed


def _close(incident: Incident, now: datetime, book: Book) -> bool:
    last = incident.executions.order_by("-pk").first()
    told = f"The planned work is over ({last.state}): {last.outcome}" if last else "The planned work is over"
    return incidents.resolve(incident, f"{told.rstrip('.')}.", now, book=book)
