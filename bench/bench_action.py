"""Steps that end at once, or after BENCH_STEP_S, for `executions.py`."""

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
        if length := float(os.environ.get("BENCH_STEP_S", "0")):
            time.sleep(length)
        return Done({"place": turn.execution.step_index})


def _action(name: str, effect: Effect) -> tuple[Action, Step]:
    words = Words(next="make a step", doing="making a step", done="Made step {place}.", failed="Failed: {why}.")
    return Action(name=name, about="End at once.", effect=effect, limit_s=60, words=words), BenchStep()


ACTIONS: Sequence[tuple[Action, Step]] = [_action("bench_look", Effect.LOOKS), _action("bench_act", Effect.ACTS)]
