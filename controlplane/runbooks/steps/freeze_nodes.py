"""Keep automation from moving nodes while one cause takes many of them (R-07)."""

from datetime import timedelta

from controlplane.quarantine import actions as quarantine
from controlplane.runbooks.holders import holder
from controlplane.runbooks.outcomes import Done, Outcome
from controlplane.runbooks.steps.base import Step
from controlplane.runbooks.turn import Turn


class FreezeNodes(Step):
    """One freeze per execution; it ends by itself."""

    def look(self, turn: Turn) -> Outcome:
        """Freeze from now on."""
        length = timedelta(seconds=float(turn.spec.args["length"]))
        frozen = quarantine.freeze(
            turn.incident.title, length, by=holder(turn.execution), now=turn.now, book=turn.book
        )  # fmt: skip
        return Done({"frozen_until": f"{frozen.until:%H:%M} UTC"}, told=True)


class ThawNodes(Step):
    """Lift only the freeze of this execution."""

    def look(self, turn: Turn) -> Outcome:
        """A freeze that has ended by itself needs no lifting."""
        lifted = quarantine.thaw(by=holder(turn.execution), now=turn.now, book=turn.book)
        return Done(told=bool(lifted))
