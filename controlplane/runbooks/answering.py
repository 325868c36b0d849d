"""A person's answer to the question of a runbook: written once, and then it wakes the execution."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction

from controlplane.domain.chronicle.sentences import full_stop
from controlplane.domain.errors import Conflict, Invalid
from controlplane.incidents.models import Incident
from controlplane.incidents.telling import shown, stream
from controlplane.runbooks import registry
from controlplane.runbooks.models import Execution, StepRun
from controlplane.runbooks.queries import LIVE
from controlplane.runs.book import Book

ASKS = "await_person"
ANSWERS = "answers"
MAX_NOTE = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What a runbook asks now, what may be answered, and until when."""

    step: str
    question: str
    answers: tuple[str, ...]
    asked_at: datetime
    until: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What was answered, by whom, and why."""

    answer: str
    by: str
    note: str


def question(execution: Execution) -> Question | None:
    """Return what the execution waits to be told, or None when it asks nothing now."""
    spec = registry.of(execution).steps[execution.step_index]
    if spec.action.name != ASKS or execution.state not in LIVE or answer_to(execution, spec.name) is not None:
        return None
    asked: StepRun | None = execution.steps.filter(index=execution.step_index, finished_at=None).last()
    if asked is None:
        return None
    return Question(
        step=spec.name, question=str(asked.intent.get("question", "")), answers=tuple(asked.intent.get("answers", ())),
        asked_at=asked.started_at, until=asked.deadline,
    )  # fmt: skip


def answer_to(execution: Execution, step: str) -> Answer | None:
    """Return what was answered to a step's question, or None."""
    given: Mapping[str, Any] | None = execution.context.get(ANSWERS, {}).get(step)
    return Answer(answer=str(given["answer"]), by=str(given["by"]), note=str(given["note"])) if given else None


def answer(execution: Execution, said: str, by: str, now: datetime, note: str = "") -> None:
    """Answer what the execution asks now.

    Raises:
        Conflict: it asks nothing, or somebody answered before.
        Invalid: that is none of its answers, or the note is too long.
    """
    with transaction.atomic():
        locked = Execution.objects.select_for_update(no_key=True).get(pk=execution.pk)
        asked = question(locked)
        if asked is None:
            raise Conflict("the execution asks nothing now")
        _check(said, asked.answers, note)
        given = {**locked.context.get(ANSWERS, {}), asked.step: {"answer": said, "by": by, "note": note.strip()}}
        context = {**locked.context, ANSWERS: given}
        Execution.objects.filter(pk=locked.pk).update(context=context, wake_at=now)
        _tell(locked, f"{by} answered “{said}”" + (f": {note.strip()}" if note.strip() else ""), by, now)
    execution.refresh_from_db()


def _check(said: str, answers: Sequence[str], note: str) -> None:
    if said not in answers:
        raise Invalid("answer", f"must be one of {', '.join(answers)}")
    if len(note) > MAX_NOTE:
        raise Invalid("note", f"must be at most {MAX_NOTE} characters")


def _tell(execution: Execution, told: str, by: str, now: datetime) -> None:
    incident = Incident.objects.select_related("run").get(pk=execution.incident_id)
    book = Book(now, "person", by)
    book.tell(stream(incident), "decision", full_stop(told))
    book.write()
    shown(incident)
