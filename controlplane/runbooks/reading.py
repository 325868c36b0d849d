"""What the engine reads at every step, each by a statement that was written once.

All of it is read in the transaction that writes what follows from it. What an act must
not see change is locked in one order: the execution, its incident, its run, the switches.
"""

from dataclasses import dataclass

from controlplane.fleet.models import Node
from controlplane.incidents.models import Incident
from controlplane.rows import ask, columns, parted
from controlplane.runbooks.facts import STORAGE_DOUBT, STORAGE_DOUBT_VALUES
from controlplane.runbooks.models import Execution, StepRun
from controlplane.runs.machines import FLEET_HOLD
from controlplane.runs.models import Attempt, Run

_SURROUNDINGS = """
    SELECT {incident}, {run}, {tried} FROM incidents_incident AS incident CROSS JOIN runs_run AS run
    LEFT JOIN (
        SELECT * FROM runbooks_steprun WHERE execution_id = %s AND index = %s AND undo = %s
        ORDER BY try_number DESC LIMIT 1
    ) AS tried ON true
    WHERE incident.id = %s AND run.id = %s
"""

_AROUND = """
    SELECT {newest}, {launcher}, ({hold}), ({doubt}) FROM (VALUES (1)) AS once
    LEFT JOIN (SELECT * FROM runs_attempt WHERE run_id = %s ORDER BY number DESC LIMIT 1) AS newest ON true
    LEFT JOIN fleet_node AS launcher ON launcher.name = %s
"""


def surroundings(execution: Execution, *, undo: bool, lock: bool) -> StepRun | None:
    """Read incident and run into the execution; return the newest try of the step at hand.

    With `lock` people and sweeps change neither until the transaction ends.
    """
    statement = _SURROUNDINGS.format(
        incident=columns(Incident, "incident"), run=columns(Run, "run"), tried=columns(StepRun, "tried")
    )
    values = [execution.pk, execution.step_index, undo, execution.incident_id, execution.run_id]
    found = ask(statement + ("FOR NO KEY UPDATE OF incident, run" if lock else ""), values)
    execution.incident, execution.run, tried = parted(found[0], Incident, Run, StepRun)
    if execution.incident.run_id == execution.run_id:
        execution.incident.run = execution.run
    newest: StepRun | None = tried
    return newest


@dataclass(frozen=True, slots=True)
class Around:
    """What stands around a run: its newest attempt, its launcher, and what fleet and storage say.

    `hold` and `doubt` are empty where nothing stands against acting.
    """

    newest: Attempt | None
    launcher: Node | None
    hold: str
    doubt: str


def around(run: Run) -> Around:
    """Read it in one statement."""
    statement = _AROUND.format(
        newest=columns(Attempt, "newest"), launcher=columns(Node, "launcher"), hold=FLEET_HOLD, doubt=STORAGE_DOUBT
    )
    (found,) = ask(statement, [*STORAGE_DOUBT_VALUES, run.pk, run.pk, run.launcher])
    newest, launcher = parted(found, Attempt, Node)
    return Around(newest, launcher, found[-2] or "", found[-1] or "")
