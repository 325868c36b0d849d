"""What people set single runbooks to, below the run's own switch."""

from django.db.models import Q

from controlplane.domain.recovery.modes import least
from controlplane.runbooks.models import RunbookMode
from controlplane.runs.models import Run


def of(run: Run) -> dict[str, str]:
    """Map each runbook that a person set, for the run or for all, to the most cautious of those words."""
    found: dict[str, str] = {}
    for row in RunbookMode.objects.filter(Q(run=None) | Q(run=run)):
        found[row.runbook] = least((row.mode, found.get(row.runbook, "")))
    return found
