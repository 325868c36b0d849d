"""The name under which an execution holds something, so that it undoes just that."""

from controlplane.runbooks.models import Execution
from controlplane.runs.cancelled import SIGNED


def holder(execution: Execution) -> str:
    """Name an execution as the holder of a run or of the nodes."""
    return f"{execution.runbook}{SIGNED}{execution.pk})"
