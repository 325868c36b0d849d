"""What people set single runbooks to, below the run's own switch."""

from controlplane.domain.recovery.modes import least
from controlplane.rows import ask
from controlplane.runs.models import Run


def of(run: Run) -> dict[str, str]:
    """Map each runbook that a person set, for the run or for all, to the most cautious of those words."""
    found: dict[str, str] = {}
    for runbook, mode in ask(_SET, [run.pk]):
        found[runbook] = least((mode, found.get(runbook, "")))
    return found


_SET = "SELECT runbook, mode FROM runbooks_runbookmode WHERE run_id IS NULL OR run_id = %s"
