"""A step that ends at once, or after BENCH_STEP_S, for `executions.py`."""

import os
import time
from collections.abc import Sequence

from controlplane.domain.recovery.action import Action, Effect, Words
from controlplane.runbooks.outcomes import Done, Outcome
from controlplane.runbooks.steps.base import Step
from controlplane.runbooks.turn import Turn


class BenchStep(Step):
    """Nothing but the engine's own work."""

    def look(self, turn: Turn) -> Outcome:
        """Be done."""
        time.sleep(float(os.environ.get("BENCH_STEP_S", "0")))
        return Done({"place": turn.execution.step_index})


ACTIONS: Sequence[tuple[Action, Step]] = [
    (
        Action(
            name="bench_step", about="End at once.", effect=Effect.LOOKS, limit_s=60,
            words=Words(next="make a step", doing="making a step", done="Made step {place}.", failed="Failed: {why}."),
        ),
        BenchStep(),
    )
]  # fmt: skip
