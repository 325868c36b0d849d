"""Whom the next attempt leaves out, and why: what people are asked about, and what is then done, is the same.

Besides those that the diagnosis condemns these are the neighbours that fail together with
them, and a slow node that waits for a boundary like this one.
"""

from datetime import datetime

from controlplane.domain.diagnosis.diagnose import Diagnosis
from controlplane.domain.recovery.guards import may_be_one_persons
from controlplane.domain.recovery.responses import GONE, REPLACE_DOMAIN, SLOW, excluded
from controlplane.fleet import queries as fleet
from controlplane.incidents import queries as incidents
from controlplane.incidents.models import Incident, IncidentState
from controlplane.runbooks.facts import neighbours, spares
from controlplane.runbooks.models import Execution
from controlplane.runs import queries as runs
from controlplane.runs.models import Attempt


def reasons(execution: Execution, diagnosis: Diagnosis | None, now: datetime) -> dict[str, str]:
    """Map each node that the next attempt leaves out to the reason."""
    if diagnosis is None:
        return {}
    free = spares() if diagnosis.exclude else 0
    reason = "lost with its group" if diagnosis.klass == GONE else "blamed"
    waiting = slow(execution, now)
    late = {waiting.act_on: "slow"} if waiting and waiting.act_on else {}
    return late | _domain(execution, diagnosis) | dict.fromkeys(excluded(diagnosis, spares=free), reason)


def slow(execution: Execution, now: datetime) -> Diagnosis | None:
    """Return the diagnosis of another open incident whose node is to be drained at the next boundary."""
    open_ones = Incident.objects.filter(run=execution.run_id, klass=SLOW, state=IncidentState.OPEN)
    other = open_ones.exclude(pk=execution.incident_id).select_related("run").first()
    diagnosis = incidents.diagnosis(other, now) if other else None
    if diagnosis is None or not diagnosis.act_on or diagnosis.cleared_up:
        return None
    return diagnosis if diagnosis.mode == "act" and spares() else None


def too_many(execution: Execution, klass: str, nodes: int) -> bool:
    """Whether more of the fleet is left out than one person may decide; what is gone is not ours to leave out."""
    if klass == GONE:
        return False
    every = fleet.all_nodes().filter(head=False).count()
    return not may_be_one_persons(nodes, every, runs.policy(execution.run))


def _domain(execution: Execution, diagnosis: Diagnosis) -> dict[str, str]:
    """Map the suspect's neighbours to the reason, where replacing it alone was tried in vain."""
    if execution.context.get("rung") != REPLACE_DOMAIN or diagnosis.act_on is None:
        return {}
    broken = Attempt.objects.filter(run=execution.run_id, number=execution.attempt).first()
    together = neighbours(broken, diagnosis.act_on) if broken else ()
    return dict.fromkeys(together, f"fails together with {diagnosis.act_on}")
