"""Say when the buffer of spares is full again: that the run trains again is not the end of a large loss (R-07)."""

from controlplane.domain.chronicle.words import count
from controlplane.runbooks.facts import spares
from controlplane.runbooks.outcomes import Done, Outcome, Wait
from controlplane.runbooks.steps.base import Step
from controlplane.runbooks.turn import Turn

POLL_S = 60.0


class AwaitSpares(Step):
    """Count free spares from time to time."""

    def look(self, turn: Turn) -> Outcome:
        """Be done when there are enough."""
        free, wanted = spares(), int(turn.spec.args["count"])
        if free < wanted:
            return Wait(turn.in_s(POLL_S), f"{count(wanted, 'spare')} ({free} free)")
        return Done({"spares": free})
