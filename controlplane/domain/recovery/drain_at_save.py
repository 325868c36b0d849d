"""Runbook R-04, last part: take a slow or failing node out where it costs nothing.

A run that is a few percent slow still trains, so it is stopped only behind a complete
checkpoint (methods 3 and 11.9). Until then nothing is touched, and any trouble that
stops the run first goes before.
"""

from controlplane.domain.recovery import step_specs as steps
from controlplane.domain.recovery.runbook import Runbook

DRAIN_AT_SAVE = Runbook(
    id="drain-at-save",
    code="R-04",
    version=1,
    title="Take the suspected node out at the next complete checkpoint",
    summary="Wait for a complete checkpoint, drain the node, stop the attempt and launch without the node.",
    steps=(
        steps.AWAIT_BOUNDARY,
        steps.DRAIN,
        steps.STOP,
        steps.CHOOSE_CHECKPOINT,
        steps.CHOOSE_NODES,
        steps.LAUNCH,
        steps.AWAIT_PROGRESS,
        steps.CLOSE,
    ),
)
