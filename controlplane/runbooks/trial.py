"""What a past incident would be answered with now: read-only, for whoever edits a runbook.

The incident is weighed as it stood at its worst, the run's switches and budgets are
those of this moment, and every condition tells whether it held.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from controlplane.domain.diagnosis.diagnose import Diagnosis
from controlplane.domain.recovery.catalog import Plan
from controlplane.domain.recovery.choice import Decision, choose
from controlplane.domain.recovery.conditions import CONDITIONS, Case
from controlplane.domain.recovery.runbook import Answer, Runbook
from controlplane.incidents import queries as incidents
from controlplane.incidents.models import Incident
from controlplane.runbooks import registry
from controlplane.runbooks.facts import run_facts
from controlplane.runs import queries as runs
from controlplane.runs.models import Attempt, RunState


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """One condition of an answer, and whether it held."""

    about: str
    holds: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """`decision` is what would be chosen now; `answers` are those of the runbook under trial to this class."""

    klass: str
    decision: Decision
    plan: Plan
    answers: Sequence[tuple[Answer, Sequence[Held]]]


def of(runbook: Runbook, incident: Incident, now: datetime) -> Trial | None:
    """Try a runbook on a past incident without any effect; None where nothing can be judged."""
    diagnosis, attempt = incidents.at_its_worst(incident), _attempt(incident)
    if diagnosis is None or attempt is None:
        return None
    case = Case(diagnosis, _exited_by_itself(attempt))
    return Trial(
        klass=diagnosis.klass,
        decision=_decision(attempt, diagnosis, case, now),
        plan=registry.catalog().plan(diagnosis, exited=case.exited),
        answers=[(answer, _held(answer, case)) for answer in runbook.answers if answer.klass == diagnosis.klass],
    )


def _attempt(incident: Incident) -> Attempt | None:
    if incident.run is None or incident.attempt is None:
        return None
    return incident.run.attempts.filter(number=incident.attempt).first()


def _exited_by_itself(attempt: Attempt) -> bool:
    """An end that we brought about says nothing of how the incident found the attempt."""
    ended, stopping = attempt.exited_at, attempt.stopping_at
    return ended is not None and (stopping is None or ended <= stopping)


def _decision(attempt: Attempt, diagnosis: Diagnosis, case: Case, now: datetime) -> Decision:
    """Choose with today's switches and budgets, as if the run still trained."""
    policy = runs.policy(attempt.run)
    facts = run_facts(attempt.run, attempt, diagnosis, policy, now)
    then = replace(facts, state=RunState.RUNNING.value, exited=case.exited)
    return choose(diagnosis, then, policy, registry.catalog())


def _held(answer: Answer, case: Case) -> list[Held]:
    return [Held(about=CONDITIONS[name].about, holds=CONDITIONS[name].holds(case)) for name in answer.when]
