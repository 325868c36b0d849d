"""Say what an execution would do from here on, step by step, without doing any of it.

Whoever approves sees names and numbers, not the titles of steps. Every step speaks of the
world as it is now; what it expects, it notes in a draft that the steps behind it read.
"""

from datetime import datetime

from controlplane.runbooks import registry
from controlplane.runbooks.models import Execution
from controlplane.runbooks.turn import Turn
from controlplane.runs.book import Book


def of(execution: Execution, now: datetime) -> list[str]:
    """Return a sentence for each step still to come, in order; nothing is written."""
    draft = Execution.objects.select_related("run", "incident__run").get(pk=execution.pk)
    runbook = registry.of(execution)
    sentences = []
    for index in range(execution.step_index, len(runbook.steps)):
        draft.step_index = index
        turn = Turn(draft, runbook, now, Book(now))
        sentences.append(registry.step(turn.spec.action.name).preview(turn))
    return [sentence for sentence in sentences if sentence]
