"""Executions of runbooks, and the decisions that people take about them."""

from datetime import UTC, datetime
from typing import Any, Literal

from django.http import HttpRequest
from ninja import Router

from controlplane.runbooks import actions, queries
from controlplane.runbooks.models import Execution
from controlplane.watch import wake
from controlplane.web.api.auth import person
from controlplane.web.api.bodies import AnswerIn, ApproveIn
from controlplane.web.api.execution_schemas import ExecutionBrief, ExecutionOut
from controlplane.web.api.paging import DEFAULT_LIMIT, MAX_ID, Id, Limit, Page, page

router = Router(tags=["executions"])

State = Literal[
    "proposed", "running", "waiting", "paused", "undoing", "succeeded", "failed", "stopped", "rejected", "undone"
]


@router.get("", response=Page[ExecutionBrief])
def list_executions(
    request: HttpRequest,
    state: State | None = None,
    incident: Id | None = None,
    after: Id | None = None,
    limit: Limit = DEFAULT_LIMIT,
) -> dict[str, Any]:
    """List executions, newest first; `after` is an execution's id."""
    person(request, "view")
    rows = Execution.objects.filter(pk__lt=after or MAX_ID).select_related("run").order_by("-pk")
    if state:
        rows = rows.filter(state=state)
    if incident:
        rows = rows.filter(incident_id=incident)
    return page(rows, limit, lambda execution: execution.pk)


@router.get("/{execution_id}", response=ExecutionOut)
def get_execution(request: HttpRequest, execution_id: Id) -> Execution:
    """Show one execution with every try of every step."""
    person(request, "view")
    return queries.execution_numbered(execution_id)


@router.post("/{execution_id}/approve", response=ExecutionOut)
def approve(request: HttpRequest, execution_id: Id, said: ApproveIn) -> Execution:
    """Let a proposed execution go on; what has changed since it was asked is asked anew (409)."""
    by = person(request, "approve")
    execution = queries.execution_numbered(execution_id)
    actions.approve(execution, by.username, datetime.now(UTC), why=said.reason, number=said.approval)
    wake.execution(execution_id)
    return queries.execution_numbered(execution_id)


@router.post("/{execution_id}/reject", response=ExecutionOut)
def reject(request: HttpRequest, execution_id: Id, said: AnswerIn | None = None) -> Execution:
    """Decide that a proposed execution never starts."""
    by, given = person(request, "reject"), said or AnswerIn()
    execution = queries.execution_numbered(execution_id)
    actions.reject(execution, by.username, datetime.now(UTC), given.reason, number=given.approval)
    return queries.execution_numbered(execution_id)


@router.post("/{execution_id}/pause", response=ExecutionOut)
def pause(request: HttpRequest, execution_id: Id) -> Execution:
    """Stop before the next step; what is under way ends."""
    by = person(request, "pause_runbook")
    actions.pause(queries.execution_numbered(execution_id), by.username, datetime.now(UTC))
    return queries.execution_numbered(execution_id)


@router.post("/{execution_id}/resume", response=ExecutionOut)
def resume(request: HttpRequest, execution_id: Id) -> Execution:
    """Go on after a pause."""
    by = person(request, "resume_runbook")
    actions.resume(queries.execution_numbered(execution_id), by.username, datetime.now(UTC))
    wake.execution(execution_id)
    return queries.execution_numbered(execution_id)


@router.post("/{execution_id}/stop", response=ExecutionOut)
def stop(request: HttpRequest, execution_id: Id) -> Execution:
    """End the execution where it is; a person takes over."""
    by = person(request, "stop_runbook")
    actions.stop(queries.execution_numbered(execution_id), by.username, datetime.now(UTC))
    return queries.execution_numbered(execution_id)


@router.post("/{execution_id}/stop-after", response=ExecutionOut)
def stop_after(request: HttpRequest, execution_id: Id) -> Execution:
    """End the execution behind the step under way."""
    by = person(request, "stop_runbook")
    actions.stop_after(queries.execution_numbered(execution_id), by.username, datetime.now(UTC))
    return queries.execution_numbered(execution_id)


@router.post("/{execution_id}/undo", response=ExecutionOut)
def undo(request: HttpRequest, execution_id: Id) -> Execution:
    """Take back what the execution did, last step first, as far as nobody changed it since."""
    by = person(request, "stop_runbook")
    actions.undo(queries.execution_numbered(execution_id), by.username, datetime.now(UTC))
    wake.execution(execution_id)
    return queries.execution_numbered(execution_id)
