"""Runbook R-08: go back behind the onset of numerical trouble.

The target is chosen before anything is stopped, because it may turn out that only a
person can choose it (methods 10, 11.23).
"""

from controlplane.domain.recovery import step_specs as steps
from controlplane.domain.recovery.runbook import Runbook

ROLL_BACK = Runbook(
    id="roll-back",
    code="R-08",
    version=1,
    title="Roll back behind the onset of the trouble",
    summary="Choose a checkpoint from well before the onset, stop the attempt, launch from there, wait for progress.",
    steps=(
        steps.CONFIRM_AT_ONCE,
        steps.CHOOSE_ROLLBACK,
        steps.STOP,
        steps.CHOOSE_NODES,
        steps.LAUNCH,
        steps.AWAIT_PROGRESS,
        steps.CLOSE,
    ),
)
