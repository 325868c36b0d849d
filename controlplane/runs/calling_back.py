"""Call back what automation has sent about a run and no agent has taken up: a person stands in between."""

from datetime import datetime

from controlplane.fleet import actions as fleet
from controlplane.runs.models import Run


def call_back(run: Run | None, now: datetime) -> int:
    """Hand out no more of it, or, without a run, of anything that automation sent; returns how many."""
    if run is None:
        return fleet.recall_commands(now, fleet=True)
    return fleet.recall_commands(now, run=run.name, executions=run.executions.values_list("pk", flat=True))
