"""Runbook R-01: bring a run back from its newest complete checkpoint.

One runbook serves a crash, a hang, a GPU fault and lost nodes, because what differs
is only how sure we must be before something is stopped. Stacks are taken first, since a
kill destroys the evidence; the restart counts as done only when the run has got
further than it ever was, since a launch that does not train is no recovery.
"""

from controlplane.domain.recovery import step_specs as steps
from controlplane.domain.recovery.runbook import Runbook

RESTART_FROM_CHECKPOINT = Runbook(
    id="restart-from-checkpoint",
    code="R-01",
    version=1,
    title="Restart from the newest complete checkpoint",
    summary="Collect stacks, stop what is left, choose checkpoint and nodes, launch, and wait for new progress.",
    steps=(
        steps.COLLECT,
        steps.CONFIRM,
        steps.STOP,
        steps.CHOOSE_CHECKPOINT,
        steps.CHOOSE_NODES,
        steps.LAUNCH,
        steps.AWAIT_PROGRESS,
        steps.CLOSE,
    ),
)
