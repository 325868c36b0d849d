"""Executions of runbooks, and the decisions that people take about them."""

from datetime import UTC, datetime
from typing import Any, Literal

from django.http import HttpRequest
from ninja import Router

from controlplane.runbooks import actions, queries
from controlplane.runbooks.models import Execution
from controlplane.watch import wake
from controlplane.web.api.auth import person
from controlplane.web.api.bodies import OptionalReasonIn
from controlplane.web.api.paging import DEFAULT_LIMIT, MAX_ID, Id, Limit, Page, page
from controlplane.web.api.schemas import ExecutionBrief, ExecutionOut

router = Router(tags=["executions"])

State = Literal["proposed", "running", "waiting", "paused", "succeeded", "failed", "stopped", "rejected"]


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
def approve(request: HttpRequest, execution_id: Id) -> Execution:
    """Let a proposed execution start."""
    by = person(request, "approve")
    actions.approve(queries.execution_numbered(execution_id), by.username, datetime.now(UTC))
    wake.execution(execution_id)
    return queries.execution_numbered(execution_id)


@router.post("/{execution_id}/reject", response=ExecutionOut)
def reject(request: HttpRequest, execution_id: Id, why: OptionalReasonIn | None = None) -> Execution:
    """Decide that a proposed execution never starts."""
    by = person(request, "reject")
    actions.reject(queries.execution_numbered(execution_id), by.username, datetime.now(UTC), why.reason if why else "")
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
