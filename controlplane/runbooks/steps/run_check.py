"""Run a check on the nodes of the attempt; what could not be checked counts as unknown, never as failed.

Which program a check is, only the node knows; a node without it refuses.
"""

from collections.abc import Mapping
from typing import Any

from controlplane.domain.recovery.acts import Do
from controlplane.fleet.models import Command
from controlplane.fleet.queries import nodes_for
from controlplane.runbooks.outcomes import Done, Failed, Outcome, Wait
from controlplane.runbooks.steps.base import Step, answer, finished, succeeded
from controlplane.runbooks.turn import Turn

POLL_S = 5.0
TRAVEL_S = 10.0
"""What the way there and back may take beside the check itself."""
PASSED, FAILED, UNKNOWN = "check_passed", "check_failed", "check_unknown"
_FACT = {"pass": PASSED, "fail": FAILED}


class RunCheck(Step):
    """Ask every node of the attempt at once."""

    def begin(self, turn: Turn) -> Mapping[str, Any]:
        """Leave a command for each node."""
        check, budget = str(turn.spec.args["check"]), float(turn.spec.args["budget"])
        attempt = turn.launched or turn.broken
        nodes = [node.name for node in nodes_for(attempt.nodes if attempt else [])]
        args = {"check": check, "budget_s": budget}
        for name in nodes:
            turn.command(name, "check.run", args, within_s=budget + TRAVEL_S, mark=name)
        turn.act(Do.CHECK, f"the check {check} is run", args={"nodes": nodes})
        return {"check": check, "nodes": nodes}

    def look(self, turn: Turn) -> Outcome:
        """Be done when every node has answered."""
        if not all(finished(command) for command in turn.commands()):
            return Wait(turn.in_s(POLL_S), turn.spec.waits_for)
        return self.expired(turn)

    def expired(self, turn: Turn) -> Outcome:
        """Go by the answers that are there."""
        found: dict[str, Any] = {PASSED: [], FAILED: [], UNKNOWN: []}
        for command in turn.commands():
            found[_fact(command)].append(command.node.name)
        if turn.spec.args.get("must_pass") and (found[FAILED] or found[UNKNOWN] or not found[PASSED]):
            return Failed(_why(found), retry=False)
        return Done(found)


def _fact(command: Command) -> str:
    return _FACT.get(str(answer(command).get("outcome")), UNKNOWN) if succeeded(command) else UNKNOWN


def _why(found: Mapping[str, list[str]]) -> str:
    told = [f"failed on {', '.join(found[FAILED])}"] if found[FAILED] else []
    told += [f"could not be checked on {', '.join(found[UNKNOWN])}"] if found[UNKNOWN] else []
    return " and ".join(told) or "there was no node to check"
