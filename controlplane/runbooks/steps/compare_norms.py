"""Compare gradient norms before and after a change (R-10): the loss may look well long after the gradients do not."""

from datetime import datetime, timedelta
from statistics import median
from typing import Any

from controlplane.domain.recovery.acts import Do
from controlplane.events import queries as events
from controlplane.runbooks.outcomes import Done, Failed, Outcome, Wait
from controlplane.runbooks.steps.base import Step
from controlplane.runbooks.turn import Turn
from controlplane.runs.models import Attempt

STEPS = 10
"""Steps on each side; one step alone is noise."""
WITHIN = timedelta(days=1)
"""Steps from longer before the stop are not looked for."""
APART = 2.0
"""Medians further apart than this factor are told to people."""
POLL_S = 5.0


class CompareNorms(Step):
    """Wait for a few steps behind the change, and hold them against the last ones before it."""

    def look(self, turn: Turn) -> Outcome:
        """Be done when the new attempt has made enough steps; a training that tells no norms has nothing to compare."""
        before = _before(turn)
        if not before:
            return Done({"compared": "no gradient norms were told before the change, so none are compared"})
        after = _after(turn)
        if len(after) < STEPS:
            return Wait(turn.in_s(POLL_S), turn.spec.waits_for)
        return _compared(turn, before, after)

    def expired(self, turn: Turn) -> Outcome:
        """Say that there was too little to compare; nothing follows from that."""
        return Failed(f"only {len(_after(turn))} steps behind the change told theirs", retry=False)


def _before(turn: Turn) -> list[float]:
    attempt = turn.broken
    if attempt is None:
        return []
    since = (attempt.exited_at or turn.now) - WITHIN
    return _norms(turn, attempt, since=since, newest=True)


def _after(turn: Turn) -> list[float]:
    attempt = turn.launched
    if attempt is None:
        return []
    return _norms(turn, attempt, since=attempt.started_at)


def _norms(turn: Turn, attempt: Attempt, *, since: datetime, newest: bool = False) -> list[float]:
    return events.gradient_norms(
        turn.run.name, attempt.number, nodes=attempt.nodes, since=since, limit=STEPS, newest=newest
    )


def _compared(turn: Turn, before: list[float], after: list[float]) -> Outcome:
    old, new = median(before), median(after)
    facts: dict[str, Any] = {"norm_before": old, "norm_after": new}
    said = f"the gradient norm was {old:.3g} before the change and is {new:.3g} behind it"
    if new > APART * old or old > APART * new:
        turn.act(Do.NOTIFY, f"{turn.run.name}: {said}")
        said += f", apart by more than a factor of {APART:g}"
    return Done({**facts, "compared": said})
