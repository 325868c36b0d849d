"""What the engine reads at every step, each by a statement that was written once.

All of it is read in the transaction that writes what follows from it. What an act must
not see change is locked in one order: the execution, its incident, its run, the switches.
"""

from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import NamedTuple

from controlplane.domain.errors import LeaseLost
from controlplane.incidents.models import Incident
from controlplane.rows import ask, columns, parted
from controlplane.runbooks.facts import STORAGE_DOUBT, STORAGE_DOUBT_VALUES
from controlplane.runbooks.models import Execution, StepRun
from controlplane.runs import automation
from controlplane.runs.leases import Lease
from controlplane.runs.machines import FLEET_HOLD
from controlplane.runs.models import Automation, Run


class Place(NamedTuple):
    """Where an execution stands: its step, and whether it is being taken back."""

    step: int
    undo: bool


_TRIED = """
    LEFT JOIN (
        SELECT * FROM runbooks_steprun WHERE execution_id = %s AND index = %s AND undo = %s
        ORDER BY try_number DESC LIMIT 1
    ) AS tried ON true
"""
_SURROUNDINGS = """
    SELECT {incident}, {run}, {tried} FROM incidents_incident AS incident CROSS JOIN runs_run AS run {newest}
    WHERE incident.id = %s AND run.id = %s
"""
_TO_ACT = """
    SELECT held.*, {share} FROM (
        SELECT {execution}, {incident}, {run}, {tried} FROM runbooks_execution AS execution
        JOIN incidents_incident AS incident ON incident.id = execution.incident_id
        JOIN runs_run AS run ON run.id = execution.run_id {newest}
        WHERE execution.id = %s AND execution.fence = %s
        FOR NO KEY UPDATE OF execution, incident, run
    ) AS held
"""
"""The share is taken once the rows are locked."""


@cache
def _written(statement: str) -> str:
    return statement.format(
        execution=columns(Execution, "execution"), incident=columns(Incident, "incident"), run=columns(Run, "run"),
        tried=columns(StepRun, "tried"), newest=_TRIED, share=automation.SHARE,
    )  # fmt: skip


def surroundings(execution: Execution, place: Place) -> StepRun | None:
    """Read incident and run into the locked execution; return the newest try of the step at hand."""
    (found,) = ask(_written(_SURROUNDINGS), [execution.pk, *place, execution.incident_id, execution.run_id])
    tried: StepRun | None
    incident, run, tried = parted(found, Incident, Run, StepRun)
    _put(execution, incident, run)
    return tried


def to_act(lease: Lease, place: Place) -> tuple[Execution, StepRun | None]:
    """Read the same with the execution, all of it locked: before an act people and sweeps are kept from it.

    The switches stay as they are, too, until the transaction ends. Tries change only under the lock of their
    execution, and its place with them: the try is the newest where the execution that comes back stands at `place`.

    Raises:
        LeaseLost: somebody else claimed it meanwhile.
    """
    found = ask(_written(_TO_ACT), [lease.row, *place, lease.row, lease.fence])
    if not found:
        raise LeaseLost(f"{lease.owner} lost its lease")
    execution, incident, run, tried = parted(found[0], Execution, Incident, Run, StepRun)
    _put(execution, incident, run)
    return execution, tried


def _put(execution: Execution, incident: Incident, run: Run) -> None:
    execution.incident, execution.run = incident, run
    if incident.run_id == execution.run_id:
        incident.run = run


class Newest(NamedTuple):
    """The newest attempt of a run, and whether it began by itself."""

    number: int
    unasked: bool


class Launcher(NamedTuple):
    """Whether the launcher of a run can be trusted to hear us."""

    name: str
    identity_conflict: bool
    last_seen_at: datetime | None


@dataclass(frozen=True, slots=True)
class Around:
    """What stands around a run: its newest attempt, its launcher, and what switches, fleet and storage say.

    `off`, `hold` and `doubt` are empty where nothing stands against acting.
    """

    newest: Newest | None
    launcher: Launcher | None
    off: str
    hold: str
    doubt: str


_AROUND = """
    SELECT newest.number, newest.unasked, launcher.name, launcher.identity_conflict, launcher.last_seen_at,
        ({hold}), ({doubt}), {switch} FROM (VALUES (1)) AS once
    LEFT JOIN (SELECT * FROM runs_attempt WHERE run_id = %s ORDER BY number DESC LIMIT 1) AS newest ON true
    LEFT JOIN fleet_node AS launcher ON launcher.name = %s
    LEFT JOIN ({off}) AS switch ON true
"""


@cache
def _around() -> str:
    return _AROUND.format(
        hold=FLEET_HOLD, doubt=STORAGE_DOUBT, switch=columns(Automation, "switch"), off=automation.SWITCH_OFF
    )


def around(run: Run) -> Around:
    """Read it in one statement, which sees what was committed before it began: behind the locks of `locked`."""
    (found,) = ask(_around(), [*STORAGE_DOUBT_VALUES, run.pk, run.pk, run.launcher, automation.names(run)])
    (switch,) = parted(found[7:], Automation)
    return Around(
        newest=Newest(*found[:2]) if found[0] is not None else None,
        launcher=Launcher(*found[2:5]) if found[2] is not None else None,
        off=automation.Standing((switch,)).why_off if switch else "",
        hold=found[5] or "",
        doubt=found[6] or "",
    )
