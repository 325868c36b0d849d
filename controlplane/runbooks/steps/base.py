"""What the engine asks of a step.

A step never waits: it says what it waits for and ends. It is asked again when
something happened or its time is up, by whichever worker is awake, so it keeps
nothing in memory: all it knows is in its intent, in its commands and in the world.
"""

from collections.abc import Mapping
from typing import Any

from controlplane.fleet.commands import FINAL
from controlplane.fleet.models import Command, CommandState
from controlplane.runbooks.outcomes import Failed, Outcome
from controlplane.runbooks.turn import Turn

UNKNOWN = "?"


class Step:
    """A step of a runbook; holds no state of its own."""

    def begin(self, turn: Turn) -> Mapping[str, Any]:  # noqa: ARG002 - for those that need it
        """Leave the commands of a new try and return its intent; both are committed together."""
        return {}

    def look(self, turn: Turn) -> Outcome:
        """Say how the try stands by now."""
        raise NotImplementedError

    def preview(self, turn: Turn) -> str | None:
        """Say what the step would do as the world is now, without doing it; None where there is nothing to say.

        What it expects to find out it may note in `turn.context`, a draft that later previews read.
        """
        said = turn.spec.words("next", {"attempt": turn.execution.attempt, **turn.context})
        return turn.spec.name.replace("_", " ") if UNKNOWN in said else said

    def expired(self, turn: Turn) -> Outcome:
        """Say what a try comes to whose time is over."""
        return Failed(f"no answer within {turn.spec.limit_s:g} s")


def finished(command: Command) -> bool:
    """Tell whether a command has ended, one way or another."""
    return command.state in FINAL


def succeeded(command: Command) -> bool:
    """Tell whether the agent reported success."""
    return command.state == CommandState.SUCCEEDED


def answer(command: Command) -> dict[str, Any]:
    """Return what the agent found out; empty when it said nothing usable."""
    data = command.result.get("data")
    return data if isinstance(data, dict) else {}


def refusal(command: Command) -> str:
    """Say in words why a command did not succeed."""
    if command.state == CommandState.EXPIRED:
        return f"{command.node.name} did not answer"
    tail = str(command.result.get("output_tail") or "").strip().splitlines()
    said = tail[-1][:300] if tail else "it gave no reason"
    return f"{command.node.name} answered {command.state}: {said}"
