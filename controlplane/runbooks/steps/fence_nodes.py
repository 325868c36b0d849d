"""Fence what could not be proved dead (R-03): the last rung before a restart, and never a guess.

A rank that nobody can reach may still write. So its node is kept out of training and
closed in the scheduler, and a restart goes on only where the node itself is silent; a
node that speaks and cannot end its ranks is a person's. Nothing here can be taken back:
the proof, or a person who looked, opens the node again.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from controlplane.domain.errors import Conflict, NotFound, Refused
from controlplane.domain.fleet.identity import SILENT_AFTER_S
from controlplane.domain.recovery.acts import Do
from controlplane.fleet import queries as fleet
from controlplane.fleet.models import Command, CommandState, Node
from controlplane.quarantine import actions as quarantine
from controlplane.runbooks.outcomes import Done, Failed, Outcome, Wait
from controlplane.runbooks.steps.base import Step, answer, finished, refusal, succeeded
from controlplane.runbooks.steps.stop import close_broken
from controlplane.runbooks.turn import Turn

POLL_S = 5.0
WITHIN_S = 30.0
UNPROVED = "unproved"
"""Fact of earlier steps: the nodes on which nobody has proved that no rank is left."""


class FenceNodes(Step):
    """Keep out, close, and go on only where nobody is at home."""

    def begin(self, turn: Turn) -> Mapping[str, Any]:
        """Write the ledger and ask the scheduler; nothing where the death of all ranks is proved."""
        nodes = _unproved(turn)
        if not nodes:
            return {"nodes": []}
        for node in nodes:
            _keep_out(turn, node)
        reason = f"middlewatch: ranks of attempt {turn.execution.attempt} may live here"
        turn.command(turn.run.launcher, "nodes.drain", {"nodes": nodes, "reason": reason}, within_s=WITHIN_S)
        return {"nodes": nodes}

    def look(self, turn: Turn) -> Outcome:
        """Be done when the scheduler has closed them, or has no way to, and none of them speaks."""
        nodes = list(turn.tried.intent.get("nodes", []))
        command = next(iter(turn.commands()), None)
        if nodes and command is not None and not finished(command):
            return Wait(turn.in_s(POLL_S), turn.spec.waits_for)
        if nodes and (why := _open_still(turn, nodes, command)):
            return Failed(why)
        close_broken(turn)
        return Done({"fenced": nodes, "stopped": True}, told=not nodes)

    def preview(self, turn: Turn) -> str | None:
        """Name the nodes whose ranks are not proved dead, where that is known by now."""
        nodes = _unproved(turn) if UNPROVED in turn.context else []
        return f"fence {', '.join(nodes)}" if nodes else "where neither can, fence the nodes and call a person"


def _unproved(turn: Turn) -> list[str]:
    """Return the nodes whose ranks may live: those that a step named, else all of an attempt that nobody ended."""
    if turn.context.get("stopped"):
        return []
    named = turn.context.get(UNPROVED)
    if isinstance(named, list):
        return [str(name) for name in named]
    return list(turn.broken.nodes) if turn.broken else []


def _keep_out(turn: Turn, node: str) -> None:
    why = f"nobody has proved that no rank of attempt {turn.execution.attempt} is left on {node}"
    key = f"execution:{turn.execution.pk}:fence:{node}"
    try:
        quarantine.quarantine(
            node, why, actor_kind="runbook", actor=turn.runbook.id, incident_id=turn.incident.pk, strike=False,
            key=key, now=turn.now, certain=True, book=turn.book,
        )  # fmt: skip
    except (Refused, Conflict, NotFound) as refused:
        turn.tell("hold", f"Node {node} was not quarantined: {refused}.", key=f"unfenced:{node}")
        return
    turn.act(Do.QUARANTINE, why, node=node, key=f"fence {turn.execution.attempt}")


def _open_still(turn: Turn, nodes: Sequence[str], command: Command | None) -> str:
    """Say why a restart may not go on, "" when it may."""
    known = list(fleet.nodes_for(nodes))
    speaking = sorted(node.name for node in known if not _silent(turn, node))
    if speaking:
        return f"{', '.join(speaking)} still speaks and could not end its ranks; a person has to look"
    if command is not None and command.state == CommandState.REFUSED:
        return ""
    if command is None or not succeeded(command):
        return refusal(command) if command else "the scheduler was not asked"
    closed = answer(command).get("drained")
    missing = sorted(set(nodes) - set(closed)) if isinstance(closed, list) else []
    return f"the scheduler did not close {', '.join(missing)}" if missing else ""


def _silent(turn: Turn, node: Node) -> bool:
    heard = node.last_seen_at
    return heard is None or (turn.now - heard).total_seconds() >= SILENT_AFTER_S
