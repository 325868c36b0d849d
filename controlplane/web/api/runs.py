"""Runs: what they do, and what operators do to them."""

from datetime import UTC, datetime
from typing import Any

from django.http import HttpRequest
from ninja import Router, Status
from pydantic import AwareDatetime

from controlplane.analytics.account import account, life
from controlplane.checkpoints.models import Checkpoint
from controlplane.fleet.models import Command
from controlplane.runbooks import actions as runbooks
from controlplane.runs import actions, queries, saving
from controlplane.runs.models import Attempt, Run
from controlplane.web.api.auth import person
from controlplane.web.api.bodies import Launch, ModeIn, NewRun
from controlplane.web.api.node_schemas import CommandOut
from controlplane.web.api.paging import DEFAULT_LIMIT, Id, Limit, Name, Page, page
from controlplane.web.api.schemas import AttemptOut, CheckpointOut, GoodputOut, RunOut

router = Router(tags=["runs"])


@router.get("", response=Page[RunOut])
def list_runs(request: HttpRequest, after: Name | None = None, limit: Limit = DEFAULT_LIMIT) -> dict[str, Any]:
    """List runs by name."""
    person(request, "view")
    rows = Run.objects.order_by("name")
    return page(rows.filter(name__gt=after) if after else rows, limit, lambda run: run.name)


@router.post("", response={201: RunOut})
def create_run(request: HttpRequest, new: NewRun) -> Status[Run]:
    """Create a run; it waits for its first launch."""
    by = person(request, "create_run")
    return Status(201, actions.create_run(**new.dict(), now=datetime.now(UTC), by=by.username))


@router.get("/{name}", response=RunOut)
def get_run(request: HttpRequest, name: Name) -> Run:
    """Show one run."""
    person(request, "view")
    return queries.run_named(name)


@router.get("/{name}/attempts", response=Page[AttemptOut])
def list_attempts(
    request: HttpRequest, name: Name, after: Id | None = None, limit: Limit = DEFAULT_LIMIT
) -> dict[str, Any]:
    """List the attempts of a run, newest first; `after` is an attempt's number."""
    person(request, "view")
    rows = Attempt.objects.filter(run=queries.run_named(name)).order_by("-number")
    return page(rows.filter(number__lt=after) if after else rows, limit, lambda attempt: attempt.number)


@router.get("/{name}/checkpoints", response=Page[CheckpointOut])
def list_checkpoints(
    request: HttpRequest, name: Name, after: Id | None = None, limit: Limit = DEFAULT_LIMIT
) -> dict[str, Any]:
    """List the checkpoints of a run, latest recorded first; `after` is a checkpoint's id."""
    person(request, "view")
    rows = Checkpoint.objects.filter(run=queries.run_named(name)).order_by("-pk")
    return page(rows.filter(pk__lt=after) if after else rows, limit, lambda checkpoint: checkpoint.pk)


@router.get("/{name}/goodput", response=GoodputOut)
def get_goodput(request: HttpRequest, name: Name, since: AwareDatetime | None = None) -> dict[str, Any]:
    """Account for the time of a run, from `since` (its first launch, when left out) to now."""
    person(request, "view")
    run, now = queries.run_named(name), datetime.now(UTC)
    first, end = life(run, now)
    begin = min(since or first, end)
    found = account(run, begin=begin, end=end)
    good, kept = found.goodput, found.reliability
    return {
        "begin": begin, "end": end, "elapsed_ms": good.elapsed_ms, "by_label_ms": good.by_label_ms,
        "goodput": good.productive, "safe": good.safe, "ettr": found.ettr, "lost_steps": good.lost_steps,
        "interruptions": kept.interruptions, "mtbf": kept.mtbf, "mttd": kept.detect,
        "mttr_resume": kept.resume, "mttr_caught_up": kept.caught_up,
    }  # fmt: skip


@router.post("/{name}/launch", response=RunOut)
def launch(request: HttpRequest, name: Name, wanted: Launch | None = None) -> Run:
    """Launch a run that has no living attempt, on the nodes named or on nodes chosen among healthy ones and spares."""
    by = person(request, "launch_run")
    runbooks.launch(queries.run_named(name), wanted.nodes if wanted else None, by.username, datetime.now(UTC))
    return queries.run_named(name)


@router.post("/{name}/hold", response=RunOut)
def hold(request: HttpRequest, name: Name) -> Run:
    """Keep automation's hands off the run; training itself goes on."""
    by = person(request, "hold_run")
    actions.hold(queries.run_named(name), by.username, datetime.now(UTC))
    return queries.run_named(name)


@router.post("/{name}/resume", response=RunOut)
def resume(request: HttpRequest, name: Name) -> Run:
    """Lift the hold."""
    by = person(request, "resume_run")
    actions.resume(queries.run_named(name), by.username, datetime.now(UTC))
    return queries.run_named(name)


@router.post("/{name}/save-now", response={202: CommandOut})
def save_now(request: HttpRequest, name: Name) -> Status[Command]:
    """Ask the training for a checkpoint now; the run's chronicle tells what came of it."""
    by = person(request, "save_now")
    return Status(202, saving.save_now(queries.run_named(name), by.username, datetime.now(UTC)))


@router.post("/{name}/stop", response=RunOut)
def stop(request: HttpRequest, name: Name) -> Run:
    """Stop the run for good."""
    by = person(request, "stop_run")
    actions.stop(queries.run_named(name), by.username, datetime.now(UTC))
    return queries.run_named(name)


@router.post("/{name}/mode", response=RunOut)
def set_mode(request: HttpRequest, name: Name, wanted: ModeIn) -> Run:
    """Let automation only watch, ask first, or act."""
    by = person(request, "set_mode")
    actions.set_mode(queries.run_named(name), wanted.mode, by.username, datetime.now(UTC))
    return queries.run_named(name)
