"""Read executions."""

from datetime import datetime

from django.db.models import Q, QuerySet

from controlplane.domain.errors import NotFound
from controlplane.runbooks.models import Execution, ExecutionState
from controlplane.runs.models import Run

LIVE = (ExecutionState.RUNNING, ExecutionState.WAITING)
UNFINISHED = (*LIVE, ExecutionState.PAUSED, ExecutionState.PROPOSED)


def execution_numbered(number: int) -> Execution:
    """Return an execution by its number; `NotFound` when there is none."""
    execution = Execution.objects.select_related("run", "incident").filter(pk=number).first()
    if execution is None:
        raise NotFound(f"there is no execution {number}")
    return execution


def live_of(run: Run) -> QuerySet[Execution]:
    """Return the executions that work on a run now, paused ones too, oldest first.

    One that only watches what others do is none of them.
    """
    working = Execution.objects.filter(run=run, state__in=(*LIVE, ExecutionState.PAUSED))
    return working.exclude(context__beside=True).order_by("created_at", "pk")


def due(now: datetime) -> QuerySet[Execution]:
    """Return the executions whose time to look again has come, the longest overdue first."""
    ready = Q(wake_at=None) | Q(wake_at__lte=now)
    return Execution.objects.filter(ready, state__in=LIVE).order_by("wake_at", "pk")
