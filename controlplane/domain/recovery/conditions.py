"""The conditions under which a runbook answers an incident: a closed list, each with its reason.

A file names them under `when`; the reason is what a person reads when none of the
answers to a class applies.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from controlplane.domain.diagnosis.diagnose import Diagnosis

STOPPING = frozenset({"crash", "crash_no_exit", "hang", "node_lost", "restore_stall", "restore_failed"})
"""Findings that say that the run makes no steps."""
WAIT_FOR_SAVE = "drain_at_save"
ONLY_TOLD = frozenset({"count", "watch", "none"})
"""Actions of a signature that stop no run that still trains."""

QUEUE_SHORT = frozenset({"successors", "allocation"})
"""Alarms of the queue that another job in it answers (D-17)."""


@dataclass(frozen=True, slots=True)
class Case:
    """A diagnosis, whether the newest attempt has ended by its launcher's word, and whether it failed so before."""

    diagnosis: Diagnosis
    exited: bool
    again: bool = False

    @property
    def down(self) -> bool:
        """Whether the run trains no more, by its launcher's word or by what stands against it."""
        return self.exited or bool(self.diagnosis.stands & STOPPING)


@dataclass(frozen=True, slots=True)
class Condition:
    """`holds` judges a case; `unless` says in one clause why nothing is done where it does not hold."""

    about: str
    holds: Callable[[Case], bool]
    unless: str


COUNTED = "the run trains on; the fault is counted on the GPU's record"

CONDITIONS: Mapping[str, Condition] = {
    "sure": Condition(
        "the finding is confirmed, or the run trains no more",
        lambda case: case.diagnosis.confirmed or case.down,
        "a suspicion alone stops nothing",
    ),
    "confirmed": Condition(
        "the finding is confirmed",
        lambda case: case.diagnosis.confirmed,
        "a suspicion alone stops nothing",
    ),
    "down": Condition(
        "the run trains no more",
        lambda case: case.down,
        "the run trains on; {klass} is told",
    ),
    "running": Condition(
        "the attempt has not ended",
        lambda case: not case.exited,
        "the attempt has ended; the next one may be as bad, or not",
    ),
    "ended": Condition(
        "the attempt has ended",
        lambda case: case.exited,
        "the attempt has not ended",
    ),
    "again": Condition(
        "the run failed the same way before, without durable progress since and with no other idea of the cause",
        lambda case: case.again,
        "it failed so for the first time",
    ),
    "node named": Condition(
        "the evidence names a node to act on",
        lambda case: case.diagnosis.act_on is not None,
        "no node stands out, so none is stopped for it",
    ),
    "critical": Condition(
        "its severity is critical",
        lambda case: case.diagnosis.severity == "critical",
        "the run is watched; it is a person's to judge",
    ),
    "not critical": Condition(
        "its severity is below critical",
        lambda case: case.diagnosis.severity != "critical",
        "it is critical",
    ),
    "fleet seen": Condition(
        "automation does not hold because part of the fleet cannot be seen",
        lambda case: not case.diagnosis.facts.get("hold"),
        "automation holds until the fleet is seen again",
    ),
    "nothing follows": Condition(
        "the scheduler ended the last attempt, and no job of the run follows it",
        lambda case: case.diagnosis.facts.get("kind") == "ended",
        "the scheduler ended no attempt without a successor",
    ),
    "stops training": Condition(
        "the fault's signature asks to stop at once",
        lambda case: case.diagnosis.facts.get("action") not in ONLY_TOLD | {WAIT_FOR_SAVE},
        COUNTED,
    ),
    "can wait": Condition(
        "the fault's signature asks to wait for the next complete checkpoint, and the run still trains",
        lambda case: not case.down and case.diagnosis.facts.get("action") == WAIT_FOR_SAVE,
        COUNTED,
    ),
    "queue short": Condition(
        "fewer jobs of the run stand in the queue than should, or its allocation ends and none follows",
        lambda case: case.diagnosis.facts.get("kind") in QUEUE_SHORT,
        "the queue is as it should be",
    ),
}
