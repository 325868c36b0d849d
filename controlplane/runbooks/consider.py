"""Decide what an open incident is answered with, and start or propose it.

Considering is cheap and repeatable: each sweep asks again for every open incident,
so a decision that waits for a pause, a token or the end of a hold is taken as soon
as it may be, and a worker that died between finding and decision costs a second.
"""

from dataclasses import replace
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import Q, QuerySet

from controlplane.domain.chronicle import sentences
from controlplane.domain.diagnosis.diagnose import Diagnosis
from controlplane.domain.recovery.acts import Act
from controlplane.domain.recovery.choice import Decision, HeldBy, choose
from controlplane.incidents import actions as incidents
from controlplane.incidents import queries as incident_queries
from controlplane.incidents.models import Incident, IncidentState
from controlplane.incidents.telling import stream
from controlplane.runbooks import approvals, attend, breaker, registry
from controlplane.runbooks.definitions import keep
from controlplane.runbooks.facts import run_facts
from controlplane.runbooks.models import ApprovalState, Execution, ExecutionState
from controlplane.runbooks.queries import live_of
from controlplane.runs import queries as runs
from controlplane.runs.book import Book
from controlplane.runs.models import Attempt, AttemptState, Run
from controlplane.runs.times import seconds

SETTLE_S = 3.0
MAX_TRIES = 2
"""Executions that may fail on one attempt before a person is asked (methods 8: two tries per rung)."""
ANOTHER = "another runbook answers it by now"
OPEN_BY_THEMSELVES = frozenset(HeldBy)
"""Guards that are asked again with each look; what a step asked a person about stays that person's."""
LIVE_OR_PAUSED = (ExecutionState.RUNNING, ExecutionState.WAITING, ExecutionState.PAUSED)
_WORKED = (ExecutionState.FAILED, ExecutionState.SUCCEEDED)


def consider(incident: Incident, now: datetime) -> Execution | None:
    """Return the execution that works on the incident, started now if it may; None when nothing is to be carried on."""
    with transaction.atomic():
        locked = Incident.objects.select_for_update(of=("self",), no_key=True).select_related("run").get(pk=incident.pk)
        if locked.run is None:
            return None
        run = Run.objects.select_for_update(no_key=True).get(pk=locked.run.pk)
        if locked.state != IncidentState.OPEN:
            _withdraw(locked, "the incident is over", now)
            return None
        _end_overtaken(run, now)
        live = live_of(run).first()
        if live is not None and live.incident_id == locked.pk:
            return live
        return _answer(locked, run, live, now)


def _answer(incident: Incident, run: Run, live: Execution | None, now: datetime) -> Execution | None:
    """Decide, tell, and start or propose; `live` works on the run for another incident."""
    attempt = runs.newest_attempt(run)
    diagnosis = _standing(incident, attempt, now)
    if diagnosis is None:
        return None
    decision = _decide(incident, run, attempt, diagnosis, now)
    if _settles(diagnosis, decision, now):
        return None
    if live is not None and not _gives_way(live, decision):
        still = _stands_still(live)
        decision = _behind(live, decision) if still else decision
        _store(incident, decision, attend.acts_for(incident, diagnosis, decision), now, busy=not still)
        return None
    if attempt is None or _refused_by_person(incident, attempt.number):
        _store(incident, decision, attend.acts_for(incident, diagnosis, decision), now, busy=attempt is not None)
        return None
    _store(incident, decision, attend.acts_for(incident, diagnosis, decision), now)
    if decision.runbook is None:
        _withdraw(incident, decision.why, now)
        return None
    free = live is None or _end_patient(live, incident, now)
    return _carry_out(incident, attempt, decision, now) if free else None


def _settles(diagnosis: Diagnosis, decision: Decision, now: datetime) -> bool:
    """A person is called only once the launches were compared: that may name an answer of our own."""
    fresh = seconds(now) - diagnosis.began < SETTLE_S
    return fresh and decision.held_by in (HeldBy.REPEAT, HeldBy.LADDER)


def _carry_out(incident: Incident, attempt: Attempt, decision: Decision, now: datetime) -> Execution | None:
    proposals = incident.executions.filter(state=ExecutionState.PROPOSED, attempt=attempt.number)
    approvals.withdraw(proposals.exclude(runbook=decision.runbook), ANOTHER, now)
    proposal = proposals.filter(runbook=decision.runbook).first()
    if decision.starts and proposal is not None:
        return _start(proposal, now) if proposal.held_by in OPEN_BY_THEMSELVES else None
    if decision.starts:
        return _create(incident, attempt, decision, ExecutionState.RUNNING, now)
    if not decision.waits and proposal is None:
        approvals.ask(_create(incident, attempt, decision, ExecutionState.PROPOSED, now), decision.why, now)
    return None


def _stands_still(live: Execution) -> bool:
    """Say whether an execution goes no further before a person does something."""
    return live.state == ExecutionState.PAUSED or bool(live.held_by)


def _behind(live: Execution, decision: Decision) -> Decision:
    """Hold an answer back that nobody would come to: who has the run does not go on, so people are told."""
    if decision.runbook is None:
        return decision
    how = "is paused" if live.state == ExecutionState.PAUSED else "stands still"
    why = f"“{registry.readable(live).title}” has the run for incident {live.incident_id} and {how}"
    return replace(decision, held_by=HeldBy.BEHIND.value, why=why, not_before=None)


def _gives_way(live: Execution, decision: Decision) -> bool:
    """An execution that only waits for a checkpoint gives way to one that may start now."""
    steps = registry.readable(live).steps
    return bool(steps) and steps[live.step_index].action.patient and decision.starts


def _end_patient(live: Execution, incident: Incident, now: datetime) -> bool:
    """Let the trouble that stops the run go first; its restart leaves the suspected node out as well.

    False when that has to wait for the next look.
    """
    told = f"incident {incident.pk} stops the run first; its restart is the boundary"
    still = _idle(Execution.objects.filter(pk=live.pk, state__in=LIVE_OR_PAUSED))
    return bool(still.update(state=ExecutionState.STOPPED, outcome=told, finished_at=now, wake_at=None, held_by=""))


def _end_overtaken(run: Run, now: datetime) -> None:
    """End what a person paused and then launched past, or nothing later would ever be answered."""
    newest = runs.newest_attempt(run)
    for paused in _idle(Execution.objects.filter(run=run, state=ExecutionState.PAUSED)):
        ours = paused.context.get("new_attempt") or paused.attempt
        if newest is not None and newest.number > ours:
            told = f"attempt {newest.number} was launched meanwhile"
            still = Execution.objects.filter(pk=paused.pk)
            still.update(state=ExecutionState.STOPPED, outcome=told, finished_at=now, wake_at=None)


def _idle(executions: QuerySet[Execution]) -> QuerySet[Execution]:
    """Lock those of the executions on which nobody works: a turn, or a person's stop, may want our run behind its own.

    The next look finds the others.
    """
    free = executions.select_for_update(skip_locked=True, no_key=True).values_list("pk", flat=True)
    return Execution.objects.filter(pk__in=list(free))


def _standing(incident: Incident, attempt: Attempt | None, now: datetime) -> Diagnosis | None:
    """Return what stands against the newest attempt, or None when it is alive and nothing does."""
    if attempt is None:
        return incident_queries.diagnosis(incident, now)
    diagnosis = incident_queries.diagnosis(incident, now, attempt=attempt.number)
    if diagnosis is None:
        return None
    about = diagnosis.attempt if diagnosis.attempt is not None else attempt.number
    return diagnosis if about == attempt.number or attempt.state == AttemptState.EXITED else None


def _refused_by_person(incident: Incident, attempt: int) -> bool:
    """A person who rejected or stopped the answer to this attempt is not asked again."""
    refused = Q(state__in=(ExecutionState.REJECTED, ExecutionState.UNDONE))
    stopped = Q(state=ExecutionState.STOPPED) & ~Q(stopped_by="", undo_by="")
    by_hand = incident.executions.filter(refused | stopped, attempt=attempt)
    return by_hand.exists() or incident.skips.filter(attempt=attempt).exists()


def _tries(incident: Incident, attempt: int, runbook: str) -> int:
    """Count the executions that came to nothing, also those that a step of their own ended behind another."""
    ours = incident.executions.filter(attempt=attempt, runbook=runbook)
    begun = Q(state=ExecutionState.STOPPED, stopped_by="", steps__state="done")
    return ours.filter(Q(state__in=_WORKED) | begun).distinct().count()


def _decide(incident: Incident, run: Run, attempt: Attempt | None, diagnosis: Diagnosis, now: datetime) -> Decision:
    if attempt is None:
        return Decision(runbook=None, why="the run was never launched")
    policy = runs.policy(run)
    catalog = registry.catalog()
    found_at = incident_queries.found_at(incident, now, young_s=policy.finding_age_s)
    facts = run_facts(run, attempt, diagnosis, policy, now, catalog=catalog, found_at=found_at)
    decision = choose(diagnosis, facts, policy, catalog)
    if decision.runbook is None:
        return decision
    tries = _tries(incident, attempt.number, decision.runbook)
    if tries >= MAX_TRIES:
        why = f"{tries} tries to bring attempt {attempt.number} back have failed"
        return replace(decision, held_by=HeldBy.REPEAT.value, why=why, not_before=None)
    opened = breaker.judge(run, policy, now) if decision.held_by in (None, HeldBy.BUCKET) else ""
    return replace(decision, held_by=HeldBy.BREAKER.value, why=opened) if opened else decision


def _store(incident: Incident, decision: Decision, acts: list[Act], now: datetime, *, busy: bool = False) -> None:
    """Keep and tell the decision and its acts when they differ from those before in anything but words.

    While another runbook goes on only what needs no runbook is told.
    """
    if busy and decision.runbook is not None:
        return
    wanted = {"runbook": decision.runbook, "held_by": decision.held_by, "exclude": list(decision.exclude),
              "not_before": decision.not_before, "attempt": incident.attempt}  # fmt: skip
    before = {name: incident.decision.get(name) for name in wanted}
    actions = attend.shown(acts)
    if before == wanted and incident.decision.get("actions", []) == actions:
        return
    incidents.decide(incident, {**wanted, "why": decision.why, "actions": actions}, now)
    book = Book(now, "system", "recovery")
    if before != wanted and not _nothing_again(incident, before["runbook"], decision):
        _tell(incident, decision, book)
    attend.write(incident, acts, now, book)
    book.write()


def _nothing_again(incident: Incident, before: str | None, decision: Decision) -> bool:
    """What comes and goes was promised to cost no further words while nothing is done about it."""
    return incident.flapping_until is not None and before is None and decision.runbook is None


def _tell(incident: Incident, decision: Decision, book: Book) -> None:
    runbook = registry.runbook(decision.runbook) if decision.runbook else None
    asked = decision.held_by is not None and decision.held_by != HeldBy.BEHIND
    proposed = runbook is not None and asked and not decision.waits
    told = sentences.proposed(decision, runbook) if proposed and runbook else sentences.decision(decision, runbook)
    book.tell(stream(incident), "proposal" if proposed else "decision", told, data={"held_by": decision.held_by})


def _start(proposal: Execution, now: datetime) -> Execution:
    """Let a proposal start whose guard has opened by itself: a lifted hold, an earned token."""
    approvals.settle(proposal.approvals.all(), ApprovalState.WITHDRAWN, now)
    waiting = Execution.objects.filter(pk=proposal.pk, state=ExecutionState.PROPOSED)
    waiting.update(state=ExecutionState.RUNNING, held_by="", wake_at=now)
    proposal.refresh_from_db()
    return proposal


def _create(incident: Incident, attempt: Attempt, decision: Decision, state: str, now: datetime) -> Execution:
    runbook = registry.runbook(str(decision.runbook))
    keep(runbook, now)
    number = incident.executions.filter(attempt=attempt.number).count() + 1
    context: dict[str, Any] = {"attempt": attempt.number, "decision": decision.why, "rung": decision.rung}
    return Execution.objects.create(
        runbook=runbook.id, version=runbook.version, digest=runbook.digest, incident=incident, run=attempt.run,
        attempt=attempt.number,
        state=state, context=context, created_at=now, held_by=decision.held_by or "",
        wake_at=now if state == ExecutionState.RUNNING else None,
        key=f"{incident.pk}:{attempt.number}:{number}",
    )  # fmt: skip


def _withdraw(incident: Incident, why: str, now: datetime) -> None:
    """Take back proposals that nobody needs to answer any more."""
    approvals.withdraw(Execution.objects.filter(incident=incident), why, now)
