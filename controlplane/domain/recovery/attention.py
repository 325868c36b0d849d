"""Who is told of an incident, how loudly, and what is proposed to them.

A page wakes a person, so it is sent only when a person is needed: the trouble is
sure and critical, and automation has no answer, may not give it, or gave it in vain.
What automation mends by itself wakes nobody; what is only worth knowing becomes a note.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from controlplane.domain.diagnosis.classes import Family, class_of
from controlplane.domain.diagnosis.diagnose import Diagnosis
from controlplane.domain.recovery.acts import Act, Do
from controlplane.domain.recovery.choice import Decision, HeldBy
from controlplane.domain.recovery.responses import GONE, SLOW, STORAGE, condemned

QUIET_CLASSES = frozenset({"environment_drift"})
"""Told on the pages alone: a changed environment is a hint for whoever looks into something else."""
ELSEWHERE = frozenset({HeldBy.PARTITION, HeldBy.BACKOFF})
"""Holds that call nobody: the first has an incident of its own, the second ends by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """An incident as it is told: `run` None is the fleet.

    `quiet` incidents (silenced, or in maintenance) wake nobody. `held_nodes` are those
    that an operator holds.
    """

    diagnosis: Diagnosis
    decision: Decision
    run: str | None = None
    attempt: int | None = None
    quiet: bool = False
    held_nodes: frozenset[str] = frozenset()


def attention(case: Case) -> list[Act]:
    """Give what is told, held and proposed as the incident stands; the same state gives the same acts."""
    found = case.diagnosis
    if not found.confirmed or found.cleared_up or _ended(case) or _locates(found):
        return []
    return [*_holds(case), *_proposals(case), *_people(case)]


def _locates(found: Diagnosis) -> bool:
    """Whether the ranks' own times will soon name who slows a run: until then there is nothing to say to anybody."""
    return found.klass == SLOW and bool(found.facts.get("locating"))


def _ended(case: Case) -> bool:
    """A run that is over needs no answer, but whoever looks after the fleet is still told."""
    return case.decision.over and class_of(case.diagnosis.klass).family is Family.STOP


def _holds(case: Case) -> Iterator[Act]:
    found = case.diagnosis
    if found.klass == GONE and found.facts.get("hold"):
        yield Act(do=Do.HOLD, why=found.title, run=case.run, key="fleet")
    if STORAGE in found.stands and case.decision.held_by == HeldBy.STORAGE:
        yield Act(do=Do.HOLD, why=case.decision.why, run=case.run, key="storage")


def _proposals(case: Case) -> Iterator[Act]:
    found, decision = case.diagnosis, case.decision
    if found.klass == SLOW and not found.act_on and found.severity != "info":
        yield _proposed(case, Do.CHECK, {"check": "node benchmark", "nodes": "all"})
    if found.klass == "scheduler" and found.severity == "critical":
        yield from (_proposed(case, Do.REPLACE, node=name) for name in _named(found))
    if decision.runbook is None or decision.waits or decision.held_by in ELSEWHERE:
        return
    if not decision.starts:
        yield from _runbook(case)
    elif decision.patient:
        yield from (_proposed(case, Do.DRAIN, node=name) for name in decision.exclude)
    barred = [name for name in condemned(found) if name in case.held_nodes or not decision.starts]
    yield from (_proposed(case, Do.QUARANTINE, node=name) for name in barred)


def _runbook(case: Case) -> Iterator[Act]:
    do = case.decision.proposes
    if do is Do.DRAIN:
        yield from (_proposed(case, do, node=name) for name in case.decision.exclude)
        return
    yield _proposed(case, do, {"exclude": list(case.decision.exclude)} if do is not Do.KILL else {})


def _proposed(case: Case, do: Do, args: Mapping[str, Any] | None = None, *, node: str | None = None) -> Act:
    key = f"{case.attempt}"
    return Act(
        do=do, why=case.diagnosis.title, run=case.run, node=node, args=args or {}, proposed=True, key=key,
    )  # fmt: skip


def _named(found: Diagnosis) -> list[str]:
    nodes = [blame.entity.removeprefix("node:") for blame in found.blamed if blame.entity.startswith("node:")]
    told = found.facts.get("nodes")
    return nodes or ([str(name) for name in told] if isinstance(told, (list, tuple)) else [])


def _people(case: Case) -> Iterator[Act]:
    found, decision = case.diagnosis, case.decision
    spared = [name for name in condemned(found) if name in case.held_nodes]
    if spared:
        why = f"{found.title}; {', '.join(spared)} is held by an operator, so automation leaves it as it is"
        yield from _told(case, why, loud=True)
    elif decision.runbook is None or decision.over:
        quiet = found.klass in QUIET_CLASSES or found.severity == "info" or _proposes_check(found)
        yield from () if quiet else _told(case, found.title, loud=found.severity == "critical")
    elif not decision.starts and decision.held_by not in ELSEWHERE:
        yield from _told(case, f"{found.title}; {decision.why}", loud=found.severity == "critical")


def _proposes_check(found: Diagnosis) -> bool:
    return found.klass == SLOW and not found.act_on and found.severity != "critical"


def _told(case: Case, why: str, *, loud: bool) -> Iterator[Act]:
    do = Do.PAGE if loud and not case.quiet else Do.NOTIFY
    key = f"{case.attempt}" if do is Do.PAGE else case.diagnosis.klass
    yield Act(do=do, why=why, run=case.run, key=key)


def words(act: Act) -> str:
    """Tell an act in one sentence without its full stop; "" where the proposal itself is told."""
    if act.do is Do.PAGE:
        return f"A person is needed: {act.why}"
    if act.do is Do.NOTIFY:
        return f"Left a note for whoever is on duty: {act.why}"
    if act.do is Do.HOLD:
        return f"Automation holds {f'run {act.run}' if act.run else 'the whole fleet'}: {act.why}"
    if act.do is Do.CHECK:
        return f"Proposed to benchmark all nodes in parallel: {act.why}"
    if act.node is None:
        return ""
    deed = {Do.DRAIN: "drain node {} at the next complete checkpoint", Do.REPLACE: "replace node {}"}
    return f"Proposed to {deed.get(act.do, f'{act.do} node {{}}').format(act.node)}: {act.why}"
