"""What the REST API shows of executions, their steps and their questions to people."""

from datetime import datetime
from typing import Any

from ninja import Schema

from controlplane.runbooks.models import Execution


class ExecutionBrief(Schema):
    """One use of a runbook, as in the list."""

    id: int
    runbook: str
    version: int
    incident_id: int
    run: str
    attempt: int
    state: str
    step_index: int
    wake_at: datetime | None
    created_at: datetime
    finished_at: datetime | None
    outcome: str

    @staticmethod
    def resolve_run(execution: Execution) -> str:
        """Name of the run."""
        return execution.run.name


class StepOut(Schema):
    """One try of one runbook step."""

    index: int
    name: str
    try_number: int
    state: str
    intent: dict[str, Any]
    result: dict[str, Any]
    sentence: str
    started_at: datetime
    finished_at: datetime | None
    deadline: datetime | None
    undo: bool


class ApprovalOut(Schema):
    """A question to people: `will` is what would be done, `persons` how many have to agree."""

    id: int
    purpose: str
    step: str
    why: str
    will: list[str]
    asked_at: datetime
    until: datetime
    persons: int
    state: str
    answers: list[dict[str, Any]]
    settled_at: datetime | None


class ExecutionOut(ExecutionBrief):
    """One use of a runbook with its steps and the questions it asked."""

    steps: list[StepOut]
    context: dict[str, Any]
    approved_by: str
    stop_after_by: str
    undo_by: str
    approvals: list[ApprovalOut]

    @staticmethod
    def resolve_approvals(execution: Execution) -> list[Any]:
        """Every question, oldest first; the last one may still be open."""
        return list(execution.approvals.all())

    @staticmethod
    def resolve_steps(execution: Execution) -> list[Any]:
        """Every try of every step, in order."""
        return list(execution.steps.all())
