"""Tell people something that they asked to be told: a note, or a page where it is loud."""

from collections.abc import Mapping
from typing import Any

from controlplane.domain.chronicle.sentences import full_stop
from controlplane.domain.recovery.acts import Do
from controlplane.domain.recovery.runbook import fill
from controlplane.runbooks.outcomes import Done, Outcome
from controlplane.runbooks.steps.base import Step
from controlplane.runbooks.turn import Turn


class Announce(Step):
    """Write it down for whoever is told, and in the run's chronicle."""

    def begin(self, turn: Turn) -> Mapping[str, Any]:
        """Fill the words from what is known and tell them."""
        text = said(turn, "text")
        turn.act(Do.PAGE if turn.spec.args["loud"] else Do.NOTIFY, text)
        turn.tell_run("note", full_stop(text), key=f"announce:{turn.spec.name}")
        return {"text": text}

    def look(self, turn: Turn) -> Outcome:
        """It needs nobody's answer."""
        return Done({"text": turn.tried.intent.get("text", "")})

    def preview(self, turn: Turn) -> str | None:
        """Say what will be told, and how loudly."""
        return f"{'page' if turn.spec.args['loud'] else 'note'}: {said(turn, 'text')}"


def said(turn: Turn, name: str) -> str:
    """Fill an argument from what the execution knows."""
    return fill(str(turn.spec.args[name]), {"run": turn.run.name, **turn.context})
