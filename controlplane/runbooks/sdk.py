"""Everything that a module with actions of your own needs; nothing else of ours is promised to stay.

Name the module in MIDDLEWATCH_ACTIONS. It holds `ACTIONS`, a list of pairs of what an
action is (`Action`) and its code (`Step`). docs/runbooks.md shows one from start to end.
"""

from controlplane.domain.recovery.action import Action, Effect, Kind, Param, Words
from controlplane.domain.recovery.acts import Do
from controlplane.runbooks.models import ExecutionState
from controlplane.runbooks.outcomes import Done, End, Failed, Outcome, Propose, Still, Wait
from controlplane.runbooks.steps.base import Step, answer, finished, refusal, succeeded
from controlplane.runbooks.turn import Turn

__all__ = [
    "Action", "Do", "Done", "Effect", "End", "ExecutionState", "Failed", "Kind", "Outcome", "Param", "Propose", "Step",
    "Still", "Turn", "Wait", "Words", "answer", "finished", "refusal", "succeeded",
]  # fmt: skip
