"""What people do to executions, and how an incident is followed up.

A person's word is a compare-and-set like everybody's: whoever comes second is told
what happened meanwhile. The next look of any worker carries it out.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction

from controlplane.checkpoints import queries as checkpoints
from controlplane.domain.chronicle import sentences
from controlplane.domain.chronicle.words import count
from controlplane.domain.errors import Conflict, Invalid
from controlplane.domain.fleet.identity import SILENT_AFTER_S
from controlplane.domain.fleet.states import USABLE
from controlplane.domain.recovery.execution import UNDOABLE
from controlplane.fleet import actions as fleet
from controlplane.fleet import queries as fleet_queries
from controlplane.fleet import scheduler
from controlplane.fleet.models import Node
from controlplane.incidents.models import Incident, IncidentState
from controlplane.incidents.telling import shown, stream
from controlplane.quarantine import actions as quarantine
from controlplane.runbooks import approvals, engine, registry, undoing, wide_undo
from controlplane.runbooks.approvals import lapse
from controlplane.runbooks.consider import consider
from controlplane.runbooks.models import Approval, ApprovalState, Execution, ExecutionState
from controlplane.runbooks.queries import LIVE, WORKING
from controlplane.runs import actions as runs
from controlplane.runs.book import Book
from controlplane.runs.leases import Look
from controlplane.runs.models import Attempt, AttemptState, Run, RunState
from controlplane.runs.watching_again import watch_again

__all__ = [
    "approve", "consider", "follow", "lapse", "launch", "pause", "pursue", "reject", "resume", "stop", "stop_after",
    "undo", "withdraw_idle",
]  # fmt: skip

PERSON = "person"
MAX_FOLLOWED = 3
"""Executions that one look at an incident may begin; the next look begins more."""
START_WITHIN = timedelta(seconds=60)


@dataclass(frozen=True, slots=True)
class _Said:
    """A person's word as the chronicle takes it."""

    kind: str
    sentence: str
    by: str
    now: datetime


def follow(incident: Incident, owner: str, now: datetime) -> Look:
    """Consider an incident and carry its execution on; one that fails is considered again at once."""
    look = Look.DONE
    for _ in range(MAX_FOLLOWED):
        execution = consider(incident, now)
        if execution is None:
            break
        look = engine.advance(execution.pk, owner, now)
        execution.refresh_from_db()
        if not look or execution.state != ExecutionState.FAILED:
            break
    return look


def approve(execution: Execution, by: str, now: datetime, *, why: str = "", number: int | None = None) -> None:
    """Let a proposed execution go on by a person's word; raises as `approvals.approve`.

    What has changed since it was asked is a `Conflict` too: it is asked anew, and says so.
    A yes to the question whether it may be taken back is one more person for `undo`.
    """
    if number is not None and execution.approvals.filter(pk=number, purpose=Approval.Purpose.UNDO).exists():
        undo(execution, by, now, number=number)
        return
    answered = approvals.approve(execution, by, now, why=why, number=number)
    if answered.state in (ApprovalState.STALE, ApprovalState.WITHDRAWN):
        raise Conflict(answered.told)


def reject(execution: Execution, by: str, now: datetime, why: str = "", *, number: int | None = None) -> None:
    """Turn a proposal down; it is not made again for the same attempt. `Conflict` when it is none any more.

    A no to the question whether it may be taken back leaves the execution as it is.
    """
    with transaction.atomic():
        if number is not None and wide_undo.turn_down(execution, number, by, now, why):
            _told(execution, _Said("decision", sentences.not_taken_back(by, why), by, now))
            return
    approvals.reject(execution, by, now, why=why, number=number)


def pause(execution: Execution, by: str, now: datetime) -> None:
    """Keep an execution from its next act; a command that is under way ends. `Conflict` when it is not live."""
    told = sentences.paused(by, registry.readable(execution))
    changes = {"paused_by": by, "still_since": now}
    _move(execution, LIVE, ExecutionState.PAUSED, changes, _Said("pause", told, by, now))


def resume(execution: Execution, by: str, now: datetime) -> None:
    """Let a paused execution go on; the limit of its step runs on from where it stopped."""
    told = sentences.unpaused(by, registry.readable(execution))
    changes = {"paused_by": "", "wake_at": now}
    _move(execution, [ExecutionState.PAUSED], ExecutionState.RUNNING, changes, _Said("resume", told, by, now))


def stop(execution: Execution, by: str, now: datetime) -> None:
    """End an execution where it stands, taking back too; the person takes over. `Conflict` when it has ended.

    Its commands that no agent has taken up yet are called back. The run is locked behind the execution, as by its
    turns, of a proposal before it, as by whoever answers; then come questions, commands and at last sentences.
    """
    told = sentences.stopped(by, registry.readable(execution))
    changes = {"outcome": told, "stopped_by": by, "finished_at": now, "wake_at": None, "held_by": ""}
    run = Run.objects.select_for_update(no_key=True).filter(pk=execution.run_id)
    execution.refresh_from_db(fields=["state"])
    with transaction.atomic():
        if execution.state == ExecutionState.PROPOSED:
            run.get()
            _change(execution, [ExecutionState.PROPOSED], ExecutionState.STOPPED, changes)
        else:
            _change(execution, [*WORKING, ExecutionState.PAUSED], ExecutionState.STOPPED, changes)
            run.get()
        approvals.settle(execution.approvals.all(), ApprovalState.WITHDRAWN, now)
        fleet.recall_commands(now, execution_id=execution.pk)
        book = Book(now, PERSON, by)
        watch_again(execution.run, now, book)
        _told(execution, _Said("decision", told, by, now))
        book.write()
    execution.refresh_from_db()


def stop_after(execution: Execution, by: str, now: datetime) -> None:
    """End an execution behind the step under way, which ends as it would. `Conflict` when it is not live."""
    told = sentences.stopped_after(by, registry.readable(execution))
    with transaction.atomic():
        still = Execution.objects.filter(pk=execution.pk, state__in=LIVE, stop_after_by="")
        if not still.update(stop_after_by=by):
            execution.refresh_from_db()
            raise Conflict(_why_not_stopped(execution))
        _told(execution, _Said("decision", told, by, now))
    execution.refresh_from_db()


def _why_not_stopped(execution: Execution) -> str:
    if execution.stop_after_by and execution.state in LIVE:
        return f"{execution.stop_after_by} asked for that before"
    return f"the execution is {execution.state} by now"


def undo(execution: Execution, by: str, now: datetime, *, number: int | None = None) -> None:
    """Take back what an execution did, last step first, as far as the world is still as it left it.

    Each step is taken back as durably as it was done; what a person changed since stays. Where that
    gives back a large share of the fleet, the first who asks opens a question, and nothing
    begins until a second person asks for the same. `number` is the question that was looked at.

    Raises:
        Refused: nothing that it did can be taken back, or the same person asked before.
        Conflict: it is not one that can be taken back by now, another runbook works on the run, or
            another question stands by now.
    """
    with transaction.atomic():
        locked = undoing.locked(execution)
        asked = wide_undo.open_of(locked, now)
        if number is not None and (asked is None or asked.pk != number):
            raise Conflict("what is asked has changed meanwhile: look at it again")
        names = wide_undo.agree(locked, by, now)
        if not names:
            told = wide_undo.told(locked, by, wide_undo.nodes(locked, now))
            _told(locked, _Said("proposal", told, by, now))
            return
        changes = undoing.start(locked, names, now)
        told = sentences.taken_back(names, registry.readable(locked))
        fleet.recall_commands(now, execution_id=execution.pk)
        _move(execution, sorted(UNDOABLE), ExecutionState.UNDOING, changes, _Said("decision", told, by, now))


def _move(execution: Execution, expected: Sequence[str], to: str, changes: Mapping[str, Any], said: _Said) -> None:
    with transaction.atomic():
        _change(execution, expected, to, changes)
        _told(execution, said)
    execution.refresh_from_db()


def _change(execution: Execution, expected: Sequence[str], to: str, changes: Mapping[str, Any]) -> None:
    if not Execution.objects.filter(pk=execution.pk, state__in=expected).update(state=to, **changes):
        execution.refresh_from_db()
        raise Conflict(f"the execution is {execution.state} by now")


def _told(execution: Execution, said: _Said) -> None:
    incident = Incident.objects.select_related("run").get(pk=execution.incident_id)
    book = Book(said.now, PERSON, said.by)
    book.tell(stream(incident), said.kind, said.sentence)
    book.write()
    shown(incident)


def launch(run: Run, nodes: Sequence[str] | None, by: str, now: datetime) -> Attempt:
    """Launch a run on a person's word, from its newest restore point.

    Without `nodes` healthy and spare ones that were heard lately are chosen.

    Raises:
        Invalid: the nodes named are not as many as wanted, twice the same, or not fit; names why.
        Refused: the run is held.
        Conflict: an attempt is alive, or too few nodes are free.
    """
    with transaction.atomic():
        locked = Run.objects.select_for_update(no_key=True).get(pk=run.pk)
        runs.launchable(locked)
        chosen = _named(locked, nodes, now) if nodes else _free(locked, now)
        point = checkpoints.restore_point(locked)
        attempt = runs.open_attempt(locked, chosen, runs.Resume(point.step, point.path), now)
        runs.set_state(locked, expected=RunState.values, to=RunState.WAITING)
        _begin(locked, attempt, by, now)
    run.refresh_from_db()
    return attempt


def _named(run: Run, nodes: Sequence[str], now: datetime) -> list[str]:
    names = list(dict.fromkeys(nodes))
    if len(names) != run.nodes_wanted:
        raise Invalid("nodes", f"{run.name} wants {run.nodes_wanted} different nodes")
    fit = {node.name for node in _fit(run, now)}
    unfit = [name for name in names if name not in fit]
    if unfit:
        raise Invalid("nodes", f"{', '.join(unfit)} cannot be used")
    return names


def _free(run: Run, now: datetime) -> list[str]:
    fit = [node.name for node in _fit(run, now) if not _silent(node, now)]
    if len(fit) < run.nodes_wanted:
        raise Conflict(f"{run.name} wants {count(run.nodes_wanted, 'node')}, free: {len(fit)}")
    return fit[: run.nodes_wanted]


def _silent(node: Node, now: datetime) -> bool:
    """A silent node is launched on only by name: it may have died as a spare, where nobody missed it."""
    heard = node.last_seen_at
    return heard is not None and (now - heard).total_seconds() >= SILENT_AFTER_S


def _fit(run: Run, now: datetime) -> list[Node]:
    """Return the nodes that may be launched on, healthy ones first."""
    living = Attempt.objects.exclude(run=run).exclude(state=AttemptState.EXITED)
    used = {name for attempt in living for name in attempt.nodes}
    used |= scheduler.closed(run.launcher, now).keys()
    usable = [
        node for node in fleet_queries.all_nodes().filter(state__in=USABLE, head=False, held=False)
        if not node.identity_conflict and node.name not in used
    ]  # fmt: skip
    return sorted(usable, key=lambda node: (node.state == "spare", node.name))


def _begin(run: Run, attempt: Attempt, by: str, now: datetime) -> None:
    book = Book(now, PERSON, by)
    key = f"launch:{run.pk}:{attempt.number}"
    quarantine.join(attempt.nodes, f"joined attempt {attempt.number} of {run.name}", now=now, key=key, book=book)
    args = {"run": run.name, "attempt": attempt.number, "nodes": attempt.nodes, "resume": {"step": attempt.resume_step}}
    fleet.send_command(run.launcher, "attempt.start", args, key=key, deadline=now + START_WITHIN, now=now)
    told = sentences.launched(attempt.number, attempt.nodes, attempt.resume_step)
    book.tell(f"run:{run.name}", "launch", told, key=key)
    book.write()


def pursue(execution_id: int, owner: str, now: datetime) -> Look:
    """Carry an execution on; when it fails, its incident is considered again at once."""
    look = engine.advance(execution_id, owner, now)
    if not look:
        return look
    execution = Execution.objects.select_related("incident").get(pk=execution_id)
    if execution.state != ExecutionState.FAILED:
        return look
    return max(look, follow(execution.incident, owner, now))


def withdraw_idle(now: datetime) -> int:
    """Take back proposals of incidents that are over; returns how many."""
    idle = Execution.objects.exclude(incident__state=IncidentState.OPEN)
    with transaction.atomic():
        return approvals.withdraw(idle, "the incident is over", now)
