"""Who is blamed, left out and kept out for an incident, whichever runbook answers it."""

from collections.abc import Mapping
from typing import Any

from controlplane.domain.diagnosis.diagnose import Diagnosis
from controlplane.domain.recovery.conditions import WAIT_FOR_SAVE
from controlplane.domain.recovery.runbook import Runbook

GONE = "correlated_loss"
SLOW = "fail_slow"
STORAGE = "storage_stall"
BACKWARDS = frozenset({"checkpoint_poison", "restore_failed"})
"""Classes that the newest checkpoint does not answer: go one back, delete nothing (methods 8)."""
REPLACE, REPLACE_DOMAIN = "replace", "replace domain"
"""Rungs of the ladder: the suspect, then all that fails together with it."""
HARD = frozenset({"gpu_fault", "node_lost", GONE})
HARD_WEIGHT = 5.0
"""Evidence on a node from here on is a machine's own word, not a suspicion (methods 7: node down, fatal Xid)."""


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


def rung(runbook: Runbook, klass: str, exclude: tuple[str, ...]) -> str:
    """Name the rung of the ladder that a decision stands on (methods 8)."""
    if not runbook.launches or runbook.rolls_back or runbook.patient:
        return runbook.id
    if klass in BACKWARDS:
        return "one checkpoint back"
    return REPLACE if exclude else "same nodes"
