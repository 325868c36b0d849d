"""Ask people a question and wait; the answer comes through `runbooks.answering`.

Nothing is held against who does not answer: at the limit the runbook ends where it
stands, and a person is told so.
"""

from collections.abc import Mapping
from typing import Any

from controlplane.domain.chronicle.sentences import full_stop
from controlplane.domain.recovery.acts import Do
from controlplane.runbooks.answering import answer_to
from controlplane.runbooks.models import ExecutionState
from controlplane.runbooks.outcomes import Done, End, Failed, Outcome, Wait
from controlplane.runbooks.steps.announce import said
from controlplane.runbooks.steps.base import Step
from controlplane.runbooks.turn import Turn

POLL_S = 3600.0
"""An answer wakes the execution; this is for one whose wake-up was lost."""


class AwaitPerson(Step):
    """Ask once, and go by what is answered."""

    def begin(self, turn: Turn) -> Mapping[str, Any]:
        """Put the question to people."""
        question, answers = said(turn, "question"), list(turn.spec.args["answers"])
        told = f"{question} ({' / '.join(answers)})"
        turn.act(Do.PAGE if turn.spec.args["loud"] else Do.NOTIFY, told)
        turn.tell("proposal", full_stop(told), key=f"question:{turn.spec.name}")
        return {"question": question, "answers": answers}

    def look(self, turn: Turn) -> Outcome:
        """Go on, or end, by the answer."""
        given = answer_to(turn.execution, turn.spec.name)
        if given is None:
            return Wait(turn.in_s(POLL_S), turn.spec.waits_for)
        facts = {"answer": given.answer, "answered_by": given.by, "note": given.note}
        if given.answer in turn.spec.args["ends"]:
            return End(ExecutionState.STOPPED, f"{given.by} answered “{given.answer}”", given.by)
        return Done(facts)

    def expired(self, turn: Turn) -> Outcome:
        """Nobody answered: nothing more is done, and somebody learns it."""
        why = f"nobody answered “{turn.tried.intent.get('question', '')}” in time"
        turn.act(Do.PAGE, why, key=f"{turn.execution.pk}:{turn.spec.name}:unanswered")
        return Failed(why, retry=False)

    def preview(self, turn: Turn) -> str | None:
        """Say what will be asked."""
        return f"ask “{said(turn, 'question')}” and wait for {' or '.join(turn.spec.args['answers'])}"
