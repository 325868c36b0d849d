"""Ask people before an act, and take their answer only for the world that they were asked about.

A question shows what every step still to come would do. It stands for a time; when that
is over nothing is done and a person is called. An answer to a question whose world has
changed does nothing but open a fresh one, and says what changed. What touches a large
share of the fleet, or goes back further than automation ever may, needs two different
people; automation is never one of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import QuerySet

from controlplane.access import links
from controlplane.domain.chronicle import sentences
from controlplane.domain.errors import Conflict, NotFound, Refused
from controlplane.domain.recovery.acts import Act, Do
from controlplane.incidents.models import Incident, IncidentState
from controlplane.incidents.telling import shown, stream
from controlplane.runbooks import attend, gate, grounds, preview, registry
from controlplane.runbooks.models import Approval, ApprovalState, Execution, ExecutionState
from controlplane.runbooks.queries import live_of
from controlplane.runs import queries as runs
from controlplane.runs.book import Book
from controlplane.runs.models import Mode, Run

PERSON = "person"
MAX_LAPSED = 100
"""Questions that one look lets lapse; the next look goes on."""


@dataclass(frozen=True, slots=True)
class Answered:
    """What an answer led to: `state` is the question's, `told` says it in words.

    Of a stale question `told` says what changed; the fresh one waits for an answer.
    """

    state: str
    told: str


def ask(execution: Execution, why: str, now: datetime, *, step: str = "", persons: int = 1) -> Approval:
    """Open the question whether a proposed execution may go on; it takes the place of an open one.

    Part of the caller's transaction.
    """
    settle(Approval.objects.filter(execution=execution), ApprovalState.STALE, now)
    world = grounds.of(execution, now)
    many = grounds.wide(execution, world)
    return Approval.objects.create(
        execution=execution, purpose=Approval.Purpose.STEP if step else Approval.Purpose.START, step=step, why=why,
        will=preview.of(execution, now), world=world, asked_at=now, until=now + _stands_for(execution.run),
        persons=max(persons, 2 if many else 1),
    )  # fmt: skip


def _stands_for(run: Run) -> timedelta:
    return timedelta(seconds=runs.policy(run).approval_s)


def open_of(execution: Execution) -> Approval | None:
    """Return the question that waits for an answer."""
    return execution.approvals.filter(state=ApprovalState.OPEN).first()


def newest_of(execution: Execution) -> Approval | None:
    """Return the newest question, whatever became of it."""
    return execution.approvals.order_by("-pk").first()


def numbered(number: int) -> Approval:
    """Return a question by its number; `NotFound` when there is none."""
    found = Approval.objects.select_related("execution__run", "execution__incident").filter(pk=number).first()
    if found is None:
        raise NotFound(f"there is no approval {number}")
    return found


def settle(questions: QuerySet[Approval], state: str, now: datetime) -> None:
    """Close the open ones among `questions` and the links to them. Part of the caller's transaction."""
    for number in questions.filter(state=ApprovalState.OPEN).values_list("pk", flat=True):
        if questions.filter(pk=number, state=ApprovalState.OPEN).update(state=state, settled_at=now):
            links.revoke(f"approval:{number}", now)


def withdraw(proposals: QuerySet[Execution], why: str, now: datetime) -> int:
    """Take proposals back that nobody needs to answer any more; returns how many. Part of the caller's transaction."""
    numbers = list(proposals.filter(state=ExecutionState.PROPOSED).values_list("pk", flat=True))
    settle(Approval.objects.filter(execution__in=numbers), ApprovalState.WITHDRAWN, now)
    return Execution.objects.filter(pk__in=numbers, state=ExecutionState.PROPOSED).update(
        state=ExecutionState.STOPPED, outcome=why, finished_at=now, held_by="", wake_at=None
    )


@transaction.atomic
def approve(
    execution: Execution, by: str, now: datetime, *, why: str = "", number: int | None = None, actor_kind: str = PERSON
) -> Answered:
    """Take a yes; the execution starts, or goes on, once as many different people agreed as have to.

    The run is locked first, so of two executions only one begins to work on it. `number`
    is the question that was looked at. An answer after its time is taken like one
    in time, as long as nothing has changed.

    Raises:
        Refused: the run is only watched or held, the same person agreed before, or no person did.
        Conflict: it is not proposed any more, another question stands by now, or another runbook works on the run.
    """
    if actor_kind != PERSON:
        raise Refused("only a person may approve")
    Run.objects.select_for_update(no_key=True).get(pk=execution.run_id)
    locked = _proposed(execution)
    _may_start(locked)
    question = _asked(locked, number, now)
    over = grounds.over(locked, now)
    if over:
        return _overtaken(locked, over, now)
    changes = grounds.changes(question.world, grounds.of(locked, now))
    if changes:
        return _ask_afresh(locked, question, changes, by, now)
    if question.state == ApprovalState.LAPSED:
        question = ask(locked, question.why, now, step=question.step, persons=question.persons)
    answered = _count(locked, question, {"who": by, "said": "yes", "at": now.isoformat(), "why": why}, now)
    execution.refresh_from_db()
    return answered


@transaction.atomic
def reject(execution: Execution, by: str, now: datetime, *, why: str = "", number: int | None = None) -> Answered:
    """Take a no; what was proposed is not proposed again for the same attempt. Locks and raises as `approve`."""
    Run.objects.select_for_update(no_key=True).get(pk=execution.run_id)
    locked = _proposed(execution)
    question = _asked(locked, number, now)
    question.answers = [*question.answers, {"who": by, "said": "no", "at": now.isoformat(), "why": why}]
    _close(question, ApprovalState.REJECTED, now)
    told = sentences.rejected(by, registry.readable(locked), why)
    changes = {"outcome": told, "finished_at": now, "held_by": "", "wake_at": None}
    Execution.objects.filter(pk=locked.pk).update(state=ExecutionState.REJECTED, **changes)
    _tell(locked, "rejected", told, by, now)
    execution.refresh_from_db()
    return Answered(ApprovalState.REJECTED, told)


def _proposed(execution: Execution) -> Execution:
    """Lock an execution that waits for people.

    One that works is not waited for: its turn holds the row and may want the run, which the answer has locked.
    """
    waiting = Execution.objects.filter(pk=execution.pk, state=ExecutionState.PROPOSED)
    locked = waiting.select_for_update(of=("self",), no_key=True).select_related("run", "incident__run").first()
    if locked is None:
        execution.refresh_from_db()
        raise Conflict(f"the execution is {execution.state} by now")
    return locked


def _asked(execution: Execution, number: int | None, now: datetime) -> Approval:
    """Return the question that is answered: the newest, also when its time is over."""
    newest = newest_of(execution)
    if newest is None or newest.state not in (ApprovalState.OPEN, ApprovalState.LAPSED):
        newest = ask(execution, execution.held_by, now)
    if number is not None and number != newest.pk:
        raise Conflict("what is proposed has changed meanwhile: look at it again")
    return newest


def _may_start(execution: Execution) -> None:
    run = execution.run
    if live_of(run).exclude(pk=execution.pk).exists():
        raise Conflict(f"another runbook works on {run.name}")
    gate.may_start(execution)
    if run.held:
        raise Refused(f"{run.name} is held by {run.held_by}")


def _overtaken(execution: Execution, why: str, now: datetime) -> Answered:
    withdraw(Execution.objects.filter(pk=execution.pk), why, now)
    _tell(execution, "decision", f"The proposal is taken back: {why}.", "", now)
    return Answered(ApprovalState.WITHDRAWN, f"nothing was started, since {why}")


def _ask_afresh(execution: Execution, question: Approval, changes: Sequence[str], by: str, now: datetime) -> Answered:
    told = "; ".join(changes)
    ask(execution, question.why, now, step=question.step, persons=question.persons)
    _tell(
        execution, "proposal", f"{by} approved what has changed since it was asked: {told}. It is asked anew.", "", now
    )
    return Answered(ApprovalState.STALE, f"nothing was started, since {told}; look at what is proposed now")


def _count(execution: Execution, question: Approval, answer: dict[str, Any], now: datetime) -> Answered:
    by = str(answer["who"])
    if any(earlier["who"] == by for earlier in question.answers):
        raise Refused(f"{by} approved it already; it needs a second person")
    question.answers = [*question.answers, answer]
    if len(question.answers) < question.persons:
        question.save(update_fields=["answers"])
        told = f"{by} approved “{registry.readable(execution).title}”; one more person has to agree."
        _tell(execution, "proposal", told, by, now)
        return Answered(ApprovalState.OPEN, told)
    _close(question, ApprovalState.APPROVED, now)
    names = " and ".join(str(item["who"]) for item in question.answers)
    return _go(execution, names, now)


def _go(execution: Execution, names: str, now: datetime) -> Answered:
    changes = {"approved_by": names, "held_by": "", "wake_at": now}
    Execution.objects.filter(pk=execution.pk).update(state=ExecutionState.RUNNING, **changes)
    told = sentences.approved(names, registry.readable(execution))
    _tell(execution, "approved", told, names, now)
    return Answered(ApprovalState.APPROVED, told)


def _close(question: Approval, state: str, now: datetime) -> None:
    question.state, question.settled_at = state, now
    question.save(update_fields=["state", "answers", "settled_at"])
    links.revoke(f"approval:{question.pk}", now)


def _tell(execution: Execution, kind: str, sentence: str, by: str, now: datetime) -> None:
    book = Book(now, PERSON, by) if by else Book(now, "system", "recovery")
    book.tell(stream(execution.incident), kind, sentence)
    book.write()
    shown(execution.incident)


def lapse(now: datetime) -> int:
    """Close the questions whose time is over and call a person for each, once; returns how many.

    Nothing is done, and whoever comes later may still answer.
    """
    late = Approval.objects.filter(state=ApprovalState.OPEN, until__lte=now).order_by("until")
    return sum(_lapse(question, now) for question in late.select_related("execution")[:MAX_LAPSED])


@transaction.atomic
def _lapse(question: Approval, now: datetime) -> bool:
    Run.objects.select_for_update(no_key=True).get(pk=question.execution.run_id)
    mine = Approval.objects.filter(pk=question.pk, state=ApprovalState.OPEN, until__lte=now)
    if not mine.update(state=ApprovalState.LAPSED, settled_at=now):
        return False
    if question.purpose == Approval.Purpose.UNDO:
        _tell(question.execution, "decision", "Nobody else agreed in time, so nothing was taken back.", "", now)
        return True
    incident = Incident.objects.select_related("run").get(pk=question.execution.incident_id)
    if incident.state != IncidentState.OPEN or question.execution.state != ExecutionState.PROPOSED:
        return True
    minutes = (now - question.asked_at).total_seconds() / 60
    title = registry.readable(question.execution).title
    why = f"nobody answered within {minutes:.0f} min whether “{title}” may go on, so nothing was done"
    do = Do.NOTIFY if incident.quiet or _barred(incident.run) else Do.PAGE
    run = incident.run.name if incident.run else None
    book = Book(now, "system", "recovery")
    attend.write(incident, [Act(do=do, why=why, run=run, key=f"lapsed:{question.pk}")], now, book)
    book.write()
    shown(incident)
    return True


def _barred(run: Run | None) -> bool:
    """Nobody need be woken for a question whose answer would start nothing."""
    return run is not None and (run.held or run.mode == Mode.WATCH)
