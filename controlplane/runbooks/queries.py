"""Read executions."""

from datetime import datetime

from django.db.models import Q, QuerySet

from controlplane.domain.errors import NotFound
from controlplane.runbooks.models import Approval, ApprovalState, Execution, ExecutionState
from controlplane.runs.models import Run

LIVE = (ExecutionState.RUNNING, ExecutionState.WAITING)
WORKING = (*LIVE, ExecutionState.UNDOING)
"""What workers carry on."""
UNFINISHED = (*WORKING, ExecutionState.PAUSED, ExecutionState.PROPOSED)


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
    working = Execution.objects.filter(run=run, state__in=(*WORKING, ExecutionState.PAUSED))
    return working.exclude(context__contains={"beside": True}).order_by("created_at", "pk")


def persons_behind(execution: Execution) -> int:
    """Count the people who agreed to the newest question that was approved; 0 when none was."""
    agreed = execution.approvals.filter(state=ApprovalState.APPROVED).exclude(purpose=Approval.Purpose.UNDO)
    newest = agreed.order_by("-pk").first()
    return len(newest.answers) if newest else int(bool(execution.approved_by))


def living() -> list[int]:
    """Return the numbers of all executions that have not ended."""
    return list(Execution.objects.filter(state__in=UNFINISHED).values_list("pk", flat=True))


def due(now: datetime) -> QuerySet[Execution]:
    """Return the executions whose time to look again has come, the longest overdue first."""
    ready = Q(wake_at=None) | Q(wake_at__lte=now)
    return Execution.objects.filter(ready, state__in=WORKING).order_by("wake_at", "pk")
