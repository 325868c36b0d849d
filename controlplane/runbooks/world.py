"""Read the world again before each act: an old event never triggers a new act.

A finished run, a newer attempt or a trouble that went away ends the execution. A
person's hold or a doubt about our own sight only keeps it still; nothing of that
ever expires into action by itself.
"""

from controlplane.fleet import queries as fleet
from controlplane.incidents.models import IncidentState
from controlplane.runbooks.models import ExecutionState
from controlplane.runbooks.outcomes import End, Outcome, Still
from controlplane.runbooks.turn import Turn
from controlplane.runs import queries as runs
from controlplane.runs.machines import fleet_hold
from controlplane.runs.models import RunState

WATCHING = frozenset({"await_progress", "close"})
"""Steps that touch nothing of the run, so no hold keeps them."""
HARMLESS = frozenset({"collect", "confirm"})
"""Steps before anything was touched."""


def ruling(turn: Turn) -> Outcome | None:
    """Say what the world imposes on the execution before its step, or None."""
    return _over(turn) or _overtaken(turn) or _gone(turn) or _still(turn)


def _over(turn: Turn) -> Outcome | None:
    if turn.run.state == RunState.COMPLETED:
        return End(ExecutionState.STOPPED, "the run completed")
    if turn.run.state == RunState.STOPPED:
        return End(ExecutionState.STOPPED, "the run was stopped")
    return None


def _overtaken(turn: Turn) -> Outcome | None:
    newest = runs.newest_attempt(turn.run)
    ours = turn.context.get("new_attempt") or turn.execution.attempt
    if newest is not None and newest.number > ours:
        return End(ExecutionState.STOPPED, f"attempt {newest.number} was launched meanwhile")
    return None


def _gone(turn: Turn) -> Outcome | None:
    if turn.spec.name in HARMLESS and turn.incident.state == IncidentState.RESOLVED:
        return End(ExecutionState.SUCCEEDED, "it recovered by itself; nothing was touched")
    return None


def _still(turn: Turn) -> Outcome | None:
    if turn.spec.name in WATCHING:
        return None
    if turn.run.held:
        return Still("operator", f"{turn.run.held_by} holds the run")
    doubt = fleet_hold()
    if doubt:
        return Still("partition", doubt)
    if any(node.identity_conflict for node in fleet.nodes_for([turn.run.launcher])):
        return Still("identity", f"two machines use the name of the launcher {turn.run.launcher}")
    return None
