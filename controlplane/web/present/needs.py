"""Who has to do something about an open incident: a person, or nobody because it goes on by itself.

It agrees with who was called (`domain.recovery.attention`): what automation mends, what
an incident of its own stands for, and what is only worth knowing asks nobody for anything.
"""

from enum import StrEnum

from controlplane.domain.recovery.acts import Do
from controlplane.domain.recovery.attention import ELSEWHERE
from controlplane.domain.recovery.execution import FINAL
from controlplane.incidents.models import Incident, IncidentState
from controlplane.runbooks.models import Execution, ExecutionState
from controlplane.runs.models import Run, RunState

GOING = (ExecutionState.RUNNING, ExecutionState.WAITING)
TELLS = (Do.PAGE.value, Do.NOTIFY.value)


class Need(StrEnum):
    """What an incident asks for, the most urgent first; `nothing` of what is over."""

    PERSON = "person"
    RECOVERING = "recovering"
    WATCHED = "watched"
    NOTHING = "nothing"


def of(incident: Incident, run: Run | None, execution: Execution | None, *, asked: bool = False) -> Need:
    """Say what an incident asks for; `asked`: a step of its newest `execution` waits for a person's answer."""
    if incident.state != IncidentState.OPEN:
        return Need.NOTHING
    if asked or (_of_nobody(incident, run) if execution is None else _stuck(incident, execution)):
        return Need.PERSON
    recovers = (execution is not None and execution.state not in FINAL) or _awaits(incident, run)
    return Need.RECOVERING if recovers else Need.WATCHED


def _of_nobody(incident: Incident, run: Run | None) -> bool:
    """Whether people are told or asked, with no runbook at work; under a hold none will begin."""
    held = run is not None and run.held and incident.confirmed_at is not None
    return held or _told(incident)


def _told(incident: Incident) -> bool:
    if incident.decision.get("held_by") in ELSEWHERE:
        return False
    acts = incident.decision.get("actions") or []
    return any(act.get("proposed") or act.get("do") in TELLS for act in acts)


def _stuck(incident: Incident, execution: Execution) -> bool:
    if execution.state in GOING:
        return bool(execution.held_by) and execution.held_by not in ELSEWHERE
    if execution.state == ExecutionState.PROPOSED:
        return incident.decision.get("held_by") not in ELSEWHERE
    return _told(incident) if execution.state == ExecutionState.SUCCEEDED else True


def _awaits(incident: Incident, run: Run | None) -> bool:
    """Whether a sure trouble is being decided on, or its run is on its way back without a runbook."""
    if run is None or incident.confirmed_at is None:
        return False
    return run.state == RunState.RECOVERING or not incident.decision
