"""What answers each class of incident: a runbook, a person, or only a word.

Classes come from `diagnosis.classes`; each has one row here. A row says which
runbook brings the run back and from when on, or that a person decides in any case.
What nothing answers is told as loudly as it is severe (`attention`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from controlplane.domain.diagnosis.diagnose import Diagnosis
from controlplane.domain.recovery.drain_at_save import DRAIN_AT_SAVE
from controlplane.domain.recovery.restart_from_checkpoint import RESTART_FROM_CHECKPOINT
from controlplane.domain.recovery.roll_back import ROLL_BACK
from controlplane.domain.recovery.stop_and_ask import STOP_AND_ASK

RESTART, DRAIN, ROLLBACK, STOP = RESTART_FROM_CHECKPOINT.id, DRAIN_AT_SAVE.id, ROLL_BACK.id, STOP_AND_ASK.id

STOPPING = frozenset({"crash", "crash_no_exit", "hang", "node_lost", "restore_stall", "restore_failed"})
"""Findings that say that the run makes no steps."""
GONE = "correlated_loss"
SLOW = "fail_slow"
STORAGE = "storage_stall"
BACKWARDS = frozenset({"checkpoint_poison", "restore_failed"})
"""Classes that the newest checkpoint does not answer: go one back, delete nothing (methods 8)."""
HARD = frozenset({"gpu_fault", "node_lost", GONE})
HARD_WEIGHT = 5.0
"""Evidence on a node from here on is a machine's own word, not a suspicion (methods 7: node down, fatal Xid)."""
WAIT_FOR_SAVE = "drain_at_save"
ONLY_TOLD = frozenset({"count", "watch", "none"})
"""Actions of a signature that stop no run that still trains."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """One row. `runbook` "" leaves it to people.

    `sure` begins only on a confirmed finding, `down` only once the run trains no more.
    `asks` says why a person decides in any case, "" where automation may.
    """

    runbook: str = ""
    sure: bool = False
    down: bool = False
    asks: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The runbook for a diagnosis, or None; `why` says what speaks for or against it."""

    runbook: str | None
    why: str = ""
    asks: str = ""


AT_ONCE = Response(runbook=RESTART)
WHEN_DOWN = Response(runbook=RESTART, down=True)
TOLD = Response()

RESPONSES: Mapping[str, Response] = {
    "crash": AT_ONCE,
    "crash_no_exit": AT_ONCE,
    "hang": AT_ONCE,
    "node_lost": AT_ONCE,
    "restore_stall": AT_ONCE,
    GONE: Response(runbook=RESTART, sure=True),
    "gpu_fault": Response(runbook=RESTART, sure=True),
    "host_memory": WHEN_DOWN,
    "network_fault": WHEN_DOWN,
    STORAGE: WHEN_DOWN,
    "workload_error": WHEN_DOWN,
    "checkpoint_poison": WHEN_DOWN,
    "restore_failed": WHEN_DOWN,
    "crash_loop": Response(runbook=RESTART, down=True, asks="launch after launch fails without new durable progress"),
    "resume_mismatch": Response(runbook=STOP, sure=True),
    "loss_anomaly": Response(runbook=ROLLBACK, sure=True),
    SLOW: Response(runbook=DRAIN, sure=True),
    "checkpoint_incomplete": TOLD,
    "checkpoint_overdue": TOLD,
    "identity_conflict": TOLD,
    "scheduler": TOLD,
    "capacity": TOLD,
    "spares_low": TOLD,
    "environment_drift": TOLD,
    "check_broken": TOLD,
    "telemetry_lost": TOLD,
    "blind": TOLD,
}


def response_to(klass: str) -> Response:
    """Give the row of a class; one that nobody knows is told and not answered."""
    return RESPONSES.get(klass, TOLD)


def is_down(diagnosis: Diagnosis, *, exited: bool) -> bool:
    """Say whether the run trains no more, by its launcher's word or by what stands against it."""
    return exited or bool(diagnosis.stands & STOPPING)


@dataclass(frozen=True, slots=True)
class _Case:
    """A diagnosis and whether the run still trains."""

    diagnosis: Diagnosis
    exited: bool
    down: bool


def plan(diagnosis: Diagnosis, *, exited: bool) -> Plan:
    """Give the runbook that answers a diagnosis as it stands now."""
    row, words = response_to(diagnosis.klass), diagnosis.klass.replace("_", " ")
    if not row.runbook:
        return Plan(runbook=None, why=f"no runbook answers {words}")
    down = is_down(diagnosis, exited=exited)
    if row.sure and not diagnosis.confirmed and not down:
        return Plan(runbook=None, why="a suspicion alone stops nothing")
    if row.down and not down:
        return Plan(runbook=None, why=f"the run trains on; {words} is told")
    special = SPECIAL.get(diagnosis.klass)
    return special(_Case(diagnosis, exited, down)) if special else Plan(runbook=row.runbook, asks=row.asks)


def _group(case: _Case) -> Plan:
    if case.diagnosis.facts.get("hold"):
        return Plan(runbook=None, why="automation holds until the fleet is seen again")
    return Plan(runbook=RESTART)


def _gpu(case: _Case) -> Plan:
    action = case.diagnosis.facts.get("action")
    if case.down:
        return Plan(runbook=RESTART)
    if action in ONLY_TOLD:
        return Plan(runbook=None, why="the run trains on; the fault is counted on the GPU's record")
    if action == WAIT_FOR_SAVE:
        return Plan(runbook=DRAIN) if case.diagnosis.act_on else Plan(runbook=None, why="no node stands out")
    return Plan(runbook=RESTART)


def _slow(case: _Case) -> Plan:
    if case.exited:
        return Plan(runbook=None, why="the attempt has ended; the next one may be as slow, or not")
    if not case.diagnosis.act_on:
        return Plan(runbook=None, why="nothing says which node slows the run, so none is stopped for it")
    return Plan(runbook=DRAIN)


def _loss(case: _Case) -> Plan:
    if not case.diagnosis.confirmed or case.diagnosis.severity != "critical":
        return Plan(runbook=None, why="the run is watched; a drift of the loss is a person's to judge")
    return Plan(runbook=ROLLBACK)


def _mismatch(case: _Case) -> Plan:
    if case.exited:
        return Plan(runbook=RESTART, asks="the last launch resumed from another state than it was told to")
    return Plan(runbook=STOP)


SPECIAL: Mapping[str, Callable[[_Case], Plan]] = {
    GONE: _group,
    "gpu_fault": _gpu,
    SLOW: _slow,
    "loss_anomaly": _loss,
    "resume_mismatch": _mismatch,
}


def excluded(diagnosis: Diagnosis, *, spares: int) -> tuple[str, ...]:
    """Give the nodes that the next attempt leaves out.

    A mere suspicion never costs the run a node that no spare replaces (methods 8).
    """
    names = diagnosis.exclude or ((diagnosis.act_on,) if diagnosis.act_on else ())
    return names if is_hard(diagnosis) or len(names) <= spares else ()


def is_hard(diagnosis: Diagnosis) -> bool:
    """Say whether a machine's own word condemns the node, more than a pattern in the run."""
    if diagnosis.klass in HARD:
        return True
    places = {f"node:{name}" for name in diagnosis.exclude}
    return any(line.weight >= HARD_WEIGHT and line.entity in places for line in diagnosis.evidence)


def condemned(diagnosis: Diagnosis) -> tuple[str, ...]:
    """Give the nodes to quarantine: a lost group is left out without a strike (L-07), a slow node is drained."""
    if diagnosis.klass in {GONE, SLOW} or diagnosis.facts.get("action") == WAIT_FOR_SAVE:
        return ()
    return diagnosis.exclude or ((diagnosis.act_on,) if diagnosis.act_on else ())


def suspect_step(klass: str, entity: str, facts: Mapping[str, Any]) -> int | None:
    """Give the step of the checkpoint that a finding distrusts, or None."""
    step = facts.get("step")
    if klass in BACKWARDS and isinstance(step, int) and not isinstance(step, bool):
        return step
    kind, _, name = entity.partition(":")
    return int(name) if kind == "checkpoint" and name.isdecimal() and len(name) < MAX_DIGITS else None


MAX_DIGITS = 19
"""Longest step number that the tables hold."""


def rung(plan_: Plan, klass: str, exclude: tuple[str, ...]) -> str:
    """Name the rung of the ladder that a decision stands on (methods 8)."""
    if plan_.runbook == RESTART and klass in BACKWARDS:
        return "one checkpoint back"
    if plan_.runbook == RESTART:
        return "replace" if exclude else "same nodes"
    return plan_.runbook or ""
