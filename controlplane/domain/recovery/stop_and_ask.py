"""Stop an attempt that would do harm, and leave the rest to a person (methods 11.19).

An attempt that resumed from the wrong state overwrites good checkpoints with bad
ones, so stopping it is urgent and launching it again is not ours to decide.
"""

from controlplane.domain.recovery import step_specs as steps
from controlplane.domain.recovery.runbook import Runbook

STOP_AND_ASK = Runbook(
    id="stop-and-ask",
    code="R-03",
    version=1,
    title="Stop the attempt before it does harm",
    summary="Stop the attempt; a person decides how it goes on.",
    steps=(steps.CONFIRM, steps.STOP),
)
