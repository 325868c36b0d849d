"""Every class of incident: its words, how loud it is, and what it explains.

The order of the table is the order of causes: when findings of several classes meet
in one incident, the incident takes the class that stands first. Detection, grouping,
the answer to an incident and the pages read classes only from here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Family(StrEnum):
    """Which troubles of a run are told as one incident."""

    STOP = "stop"
    """The run does not go on: one incident until it has left the trouble behind."""
    ADVICE = "advice"
    """The run goes on: an incident of its own, which ends when its finding clears."""
    SIGHT = "sight"
    """We see badly, and the run may be in good order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentClass:
    """One class. `title` is a noun, `meaning` a sentence for a person at 3 am, without full stop.

    `explains` names classes that follow from this one: such a finding joins the
    incident and takes no part in naming it. With `gathers`, findings about different
    entities are still one trouble. With `opens_anew`, the class is found by comparing
    launches and names what earlier incidents could not: it opens an incident of its own
    and closes those that it explains.
    """

    name: str
    title: str
    meaning: str
    severity: str = "critical"
    family: Family = Family.STOP
    explains: frozenset[str] = frozenset()
    gathers: bool = True
    opens_anew: bool = False

    @property
    def about_sight(self) -> bool:
        """Say whether the class is about our view of the run and not about the run."""
        return self.family is Family.SIGHT


_SYMPTOMS = frozenset({"crash", "crash_no_exit", "hang", "restore_stall"})
_MACHINE = _SYMPTOMS | {"node_lost", "network_fault"}
_LAUNCHES = _SYMPTOMS | {"crash_loop", "restore_failed"}

_TABLE = (
    IncidentClass(
        name="storage_stall",
        title="storage trouble",
        meaning="the shared storage does not answer, so every rank that reads or writes fails with it",
        explains=_LAUNCHES | {"workload_error", "checkpoint_incomplete", "checkpoint_overdue"},
    ),
    IncidentClass(
        name="correlated_loss",
        title="loss of a group of nodes",
        meaning="several nodes fell silent together, so the cause is what they share and not each of them",
        explains=_MACHINE,
    ),
    IncidentClass(
        name="gpu_fault",
        title="fault of a GPU",
        meaning="a GPU reported an error that ends whatever ran on it",
        explains=_MACHINE,
    ),
    IncidentClass(
        name="node_lost",
        title="lost node",
        meaning="a node is gone, and the run cannot go on without it",
        explains=_SYMPTOMS | {"network_fault"},
    ),
    IncidentClass(
        name="host_memory",
        title="host out of memory",
        meaning="a node ran out of memory and its kernel killed a process of the run",
        explains=_SYMPTOMS,
    ),
    IncidentClass(
        name="network_fault",
        title="fault of the network",
        meaning="a link of the training network is down or keeps failing",
        explains=_SYMPTOMS,
    ),
    IncidentClass(
        name="checkpoint_poison",
        title="checkpoint that kills what restores it",
        meaning="the run died soon after restoring the same checkpoint on different nodes",
        explains=_LAUNCHES,
        opens_anew=True,
    ),
    IncidentClass(
        name="workload_error",
        title="error of the workload",
        meaning="the program or its data fail the same way wherever they run",
        explains=_LAUNCHES,
    ),
    IncidentClass(
        name="crash_loop",
        title="crash loop",
        meaning="launch after launch fails without new durable progress",
        explains=_SYMPTOMS | {"restore_failed"},
    ),
    IncidentClass(
        name="resume_mismatch",
        title="wrong resume",
        meaning="the attempt goes on from another state than the checkpoint it was to resume from",
    ),
    IncidentClass(
        name="restore_failed",
        title="failed restore",
        meaning="the checkpoint could not be loaded",
        explains=_SYMPTOMS,
    ),
    IncidentClass(
        name="crash_no_exit",
        title="crash that does not end",
        meaning="a rank died and the rest of the job goes on without making progress",
        explains=frozenset({"crash", "hang"}),
    ),
    IncidentClass(
        name="crash",
        title="crash",
        meaning="the attempt broke off in mid-run",
        explains=frozenset({"hang"}),
    ),
    IncidentClass(
        name="restore_stall",
        title="stalled restore",
        meaning="the run loads its checkpoint and no more bytes arrive",
        explains=frozenset({"hang"}),
    ),
    IncidentClass(
        name="hang",
        title="hang",
        meaning="every rank is still there and no step is made",
    ),
    IncidentClass(
        name="loss_anomaly",
        title="anomaly of the loss",
        meaning="the loss left its band or is no number any more",
        severity="warning",
        family=Family.ADVICE,
    ),
    IncidentClass(
        name="fail_slow",
        title="slow run",
        meaning="steps take longer than they did, and the run goes on",
        severity="warning",
        family=Family.ADVICE,
    ),
    IncidentClass(
        name="checkpoint_incomplete",
        title="incomplete checkpoint",
        meaning="a checkpoint lacks files or bytes, so the run cannot be resumed from it",
        severity="warning",
        family=Family.ADVICE,
    ),
    IncidentClass(
        name="checkpoint_overdue",
        title="overdue checkpoint",
        meaning="the run makes steps and saves nothing, so ever more work would be lost",
        family=Family.ADVICE,
    ),
    IncidentClass(
        name="identity_conflict",
        title="two machines under one name",
        meaning="two machines speak under one name, so nothing that either says is acted on",
        family=Family.ADVICE,
        gathers=False,
    ),
    IncidentClass(
        name="scheduler",
        title="scheduler and ledger disagree",
        meaning="the scheduler does something that the ledger of nodes or the plan of the run forbids",
        severity="warning",
        family=Family.ADVICE,
        gathers=False,
    ),
    IncidentClass(
        name="capacity",
        title="lack of capacity",
        meaning="the run will not get the machines it needs in time",
        severity="warning",
        family=Family.ADVICE,
        gathers=False,
    ),
    IncidentClass(
        name="spares_low",
        title="too few spares",
        meaning="the next losses may find no spare node",
        severity="warning",
        family=Family.ADVICE,
    ),
    IncidentClass(
        name="environment_drift",
        title="changed environment",
        meaning="this launch differs in code, packages, drivers or hardware from the last one that trained",
        severity="warning",
        family=Family.ADVICE,
    ),
    IncidentClass(
        name="check_broken",
        title="broken check",
        meaning="a check fails on so many machines that the check itself is at fault",
        severity="warning",
        family=Family.ADVICE,
        gathers=False,
    ),
    IncidentClass(
        name="telemetry_lost",
        title="lost telemetry",
        meaning="nodes say nothing while the run makes steps, so only our view of them is gone",
        severity="warning",
        family=Family.SIGHT,
    ),
    IncidentClass(
        name="blind",
        title="no sight of the run",
        meaning="no node of the run is heard, so nothing is judged until somebody speaks again",
        severity="warning",
        family=Family.SIGHT,
    ),
)

CLASSES: Mapping[str, IncidentClass] = {item.name: item for item in _TABLE}
"""Every class by its name, nearest to a cause first."""

PLANNED = IncidentClass(
    name="planned",
    title="planned work",
    meaning="a person asked for it; nothing is broken, and it counts as no interruption",
    severity="info",
    family=Family.ADVICE,
)
"""What no detector finds: the record of a runbook that a person started."""

_RANKS = {name: rank for rank, name in enumerate(CLASSES)}


def class_of(name: str) -> IncidentClass:
    """Give a class; one that a later version knows stands alone and advises."""
    if name == PLANNED.name:
        return PLANNED
    words = name.replace("_", " ")
    unknown = IncidentClass(name=name, title=words, meaning=words, severity="warning", family=Family.ADVICE)
    return CLASSES.get(name, unknown)


def rank_of(name: str) -> int:
    """Give the place of a class in the order of causes, 0 for the nearest; unknown ones come last."""
    return _RANKS.get(name, len(_RANKS))


def explains(cause: str, consequence: str) -> bool:
    """Say whether findings of class `consequence` follow from one of class `cause`."""
    return consequence in class_of(cause).explains
