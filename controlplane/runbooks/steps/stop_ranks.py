"""Have the nodes' own agents kill what the launcher could not end, and prove it (R-03).

Each agent speaks for its own node alone. Silence is no proof: the nodes that did not
answer, or whose ranks are still there, are named for the step that fences them.
"""

from collections.abc import Mapping
from typing import Any

from controlplane.fleet.models import Command
from controlplane.runbooks.outcomes import Done, Failed, Outcome, Wait
from controlplane.runbooks.steps.base import Step, answer, finished, succeeded
from controlplane.runbooks.steps.fence_nodes import UNPROVED
from controlplane.runbooks.steps.stop import close_broken
from controlplane.runbooks.turn import Turn
from controlplane.runs import actions as runs

POLL_S = 5.0
GRACE_S = 2.0


class StopRanks(Step):
    """Ask every node of the attempt at once."""

    def begin(self, turn: Turn) -> Mapping[str, Any]:
        """Leave a command for each node; nothing where the launcher has proved the end already."""
        attempt = turn.broken
        if attempt is None or turn.context.get("stopped"):
            return {"nodes": []}
        runs.mark_stopping(attempt, turn.now)
        args = {"run": turn.run.name, "attempt": attempt.number, "grace_s": GRACE_S}
        for node in attempt.nodes:
            turn.command(node, "ranks.stop", args, within_s=turn.spec.limit_s, mark=node)
        return {"nodes": list(attempt.nodes)}

    def look(self, turn: Turn) -> Outcome:
        """Be done when every node has proved that none of its ranks is left."""
        commands = turn.commands()
        if not all(finished(command) for command in commands):
            return Wait(turn.in_s(POLL_S), turn.spec.waits_for)
        return self.expired(turn)

    def expired(self, turn: Turn) -> Outcome:
        """Go by who has answered; the others are left to be fenced."""
        left = sorted(command.node.name for command in turn.commands() if not _proved(command))
        turn.context[UNPROVED] = left
        if left:
            return Failed(f"{', '.join(left)} did not prove that its ranks are gone", retry=False)
        close_broken(turn)
        nodes = turn.tried.intent.get("nodes", [])
        proof = f"the agents of {', '.join(nodes)} proved it" if nodes else "the launcher had proved it"
        return Done({"stopped": True, "proof": proof}, told=not nodes)

    def preview(self, turn: Turn) -> str | None:
        """Say that it is for the case in which the launcher fails."""
        return f"where the launcher cannot, {turn.spec.words('next', turn.context)}"


def _proved(command: Command) -> bool:
    return succeeded(command) and not answer(command).get("survivors")
