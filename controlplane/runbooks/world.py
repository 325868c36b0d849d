"""Read the world again before each act: an old event never triggers a new act.

A finished run, a newer attempt or a trouble that went away ends the execution. A
person's hold or a doubt about our own sight only keeps it still; nothing of that
ever expires into action by itself.
"""

from controlplane.domain.findings import Stage
from controlplane.domain.fleet.identity import SILENT_AFTER_S
from controlplane.domain.recovery.actions import Effect
from controlplane.domain.recovery.holds import HeldBy
from controlplane.incidents.models import IncidentState
from controlplane.runbooks import gate, reading
from controlplane.runbooks.holders import holder
from controlplane.runbooks.models import ExecutionState
from controlplane.runbooks.outcomes import End, Outcome, Still
from controlplane.runbooks.reading import Around, Launcher, Newest
from controlplane.runbooks.turn import Turn
from controlplane.runs.models import RunState

STOP = "stop"
LAUNCH = "launch"


def ruling(turn: Turn) -> Outcome | None:
    """Say what the world imposes on the execution before its step, or None.

    Before an act incident and run were read under locks, so a person's hold comes before it or
    after it; the switches stay as they are until the act is written. Taking back is a person's wish,
    which outlives incident and attempt, so there only holds and doubts count.
    """
    around = reading.around(turn.run)
    if turn.undoing:
        return _still(turn, around)
    return _over(turn) or _overtaken(turn, around) or _gone(turn) or _still(turn, around) or gate.before_act(turn)


def _over(turn: Turn) -> Outcome | None:
    if turn.run.state == RunState.COMPLETED:
        return End(ExecutionState.STOPPED, "the run completed")
    if turn.run.state == RunState.STOPPED:
        return End(ExecutionState.STOPPED, "the run was stopped")
    return None


def _overtaken(turn: Turn, around: Around) -> Outcome | None:
    if turn.runbook.beside:
        return None
    newest = around.newest
    ours = turn.context.get("new_attempt") or turn.execution.attempt
    if newest is not None and newest.number > ours and not _forestalled(turn, newest):
        return End(ExecutionState.STOPPED, f"attempt {newest.number} was launched meanwhile")
    return None


def _forestalled(turn: Turn, newest: Newest) -> bool:
    """Whether a successor began by itself between our stop and our launch, which then takes or ends it.

    Before the stop nothing has been done yet, and the trouble is judged anew with the new attempt.
    """
    begun = turn.execution.step_index + (turn.step_run is not None)
    actions = [spec.action.name for spec in turn.runbook.steps]
    between = STOP in actions[:begun] and LAUNCH in actions[turn.execution.step_index :]
    follows = newest.number == turn.execution.attempt + 1 and "new_attempt" not in turn.context
    return newest.unasked and follows and between


def _gone(turn: Turn) -> Outcome | None:
    if turn.incident.state == IncidentState.RESOLVED and _untouched(turn):
        standing = turn.incident.findings.exclude(stage=Stage.CLEARED).exists()
        why = "a person resolved the incident" if standing else "it recovered by itself"
        return End(ExecutionState.SUCCEEDED, f"{why}; nothing was touched")
    return None


def _untouched(turn: Turn) -> bool:
    looks = turn.spec.action.effect is Effect.LOOKS
    return looks or (turn.spec.action.name == STOP and turn.step_run is None)


def _still(turn: Turn, around: Around) -> Outcome | None:
    if turn.spec.action.effect is Effect.WATCHES:
        return None
    if turn.run.held and turn.run.held_by != holder(turn.execution):
        return Still("operator", f"{turn.run.held_by} holds the run")
    if around.off:
        return Still(HeldBy.KILL_SWITCH.value, around.off)
    if around.hold:
        return Still("partition", around.hold)
    if around.doubt and turn.spec.action.effect is not Effect.LOOKS:
        return Still("storage", f"{around.doubt}; it goes on when the storage answers")
    return None if around.launcher is None else _launcher(turn, around.launcher)


def _launcher(turn: Turn, node: Launcher) -> Outcome | None:
    """Wait for a launcher that is away or in dispute: its silence is no failure of the run.

    A step that may be skipped is not waited for: what comes behind it does without the launcher.
    """
    if node.identity_conflict:
        return Still("identity", f"two machines use the name of the launcher {node.name}")
    heard = node.last_seen_at
    silent = heard is not None and (turn.now - heard).total_seconds() >= SILENT_AFTER_S
    if silent and turn.spec.action.by_launcher and not turn.spec.optional:
        return Still("launcher", f"the launcher {node.name} is silent")
    return None
