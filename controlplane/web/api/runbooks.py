"""Runbooks that a person starts, and what they ask meanwhile."""

from datetime import UTC, datetime
from typing import Any

from django.http import HttpRequest
from ninja import Router, Schema, Status

from controlplane.domain.errors import NotFound
from controlplane.runbooks import answering, queries, starting
from controlplane.runbooks.models import Execution
from controlplane.runs.queries import run_named
from controlplane.watch import wake
from controlplane.web.api.auth import person
from controlplane.web.api.bodies import SaidIn, StartIn
from controlplane.web.api.execution_schemas import ExecutionOut
from controlplane.web.api.paging import Id, Name

router = Router(tags=["runbooks"])
questions = Router(tags=["runbooks"])


class QuestionOut(Schema):
    """What an execution asks, what may be answered, and until when it waits."""

    step: str
    question: str
    answers: list[str]
    asked_at: datetime
    until: datetime | None


@router.post("/{name}/start", response={201: ExecutionOut})
def start(request: HttpRequest, name: Name, wanted: StartIn) -> Status[Execution]:
    """Start a runbook on a run; its file says which inputs it asks for."""
    by = person(request, "start_runbook")
    made = starting.start(name, run_named(wanted.run), by.username, datetime.now(UTC), wanted.inputs)
    wake.execution(made.pk)
    return Status(201, queries.execution_numbered(made.pk))


@questions.get("/{execution_id}", response=QuestionOut)
def get_question(request: HttpRequest, execution_id: Id) -> Any:
    """Show what an execution asks now."""
    person(request, "view")
    asked = answering.question(queries.execution_numbered(execution_id))
    if asked is None:
        raise NotFound(f"execution {execution_id} asks nothing now")
    return asked


@questions.post("/{execution_id}/answer", response=ExecutionOut)
def answer(request: HttpRequest, execution_id: Id, said: SaidIn) -> Execution:
    """Answer what an execution asks now, once."""
    by = person(request, "approve")
    answering.answer(queries.execution_numbered(execution_id), said.answer, by.username, datetime.now(UTC), said.note)
    wake.execution(execution_id)
    return queries.execution_numbered(execution_id)
