"""Try the storage by reading what a restart would read, before anything is launched on it (R-12)."""

from collections.abc import Mapping
from typing import Any

from controlplane.runbooks.outcomes import Done, Failed, Outcome, Wait
from controlplane.runbooks.steps.base import Step, answer, finished, refusal, succeeded
from controlplane.runbooks.turn import Turn

POLL_S = 5.0
NEWEST = 1


class ProbeStorage(Step):
    """A launcher that reads a checkpoint's files has a storage that answers."""

    def begin(self, turn: Turn) -> Mapping[str, Any]:
        """Ask the launcher to read."""
        args = {"run": turn.run.name, "newest": NEWEST}
        turn.command(turn.run.launcher, "checkpoints.scan", args, within_s=turn.spec.limit_s)
        return {}

    def look(self, turn: Turn) -> Outcome:
        """Be done when it has read; a read that hangs is the trouble itself and is tried again."""
        command = next(iter(turn.commands()), None)
        if command is not None and not finished(command):
            return Wait(turn.in_s(POLL_S), turn.spec.waits_for)
        if command is None or not succeeded(command):
            return Failed(refusal(command) if command else "the launcher was not asked")
        found = answer(command).get("checkpoints")
        return Done({"storage_answers": True, "found": len(found) if isinstance(found, list) else 0})
