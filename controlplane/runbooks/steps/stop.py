"""Stop what is left of the attempt, by escalation, and have its death proved (R-03).

The attempt is marked before the command leaves, so the deaths that follow are
ours and no new fault. A later try gives no grace. Where others can end the ranks after
this step (it is optional), a launcher that gives no sign for as long as a command's lease
is not waited for: ranks that hang keep their nodes busy meanwhile. It is told to
stop the attempt whenever it comes back.
"""

from collections.abc import Mapping
from typing import Any

from controlplane.domain.recovery.acts import Do
from controlplane.fleet import queries as fleet
from controlplane.fleet.commands import LEASE
from controlplane.incidents.models import Incident, IncidentState
from controlplane.runbooks.models import ExecutionState
from controlplane.runbooks.outcomes import Done, End, Failed, Outcome, Wait
from controlplane.runbooks.steps import ending
from controlplane.runbooks.steps.base import Step, answer, finished, refusal, succeeded
from controlplane.runbooks.turn import Turn
from controlplane.runs import actions as runs
from controlplane.runs.models import AttemptState, RunState
from controlplane.runs.times import seconds

GRACE_S = 0.5
CRASH_GRACE_S = 0.1
"""Ranks without one of their peers have nothing left to save together."""
POLL_S = 5.0
WITHIN_S = 30.0


class Stop(Step):
    """End the attempt and prove it."""

    def begin(self, turn: Turn) -> Mapping[str, Any]:
        """Mark the attempt as ours to end and tell the launcher."""
        attempt = turn.broken
        if attempt is None:
            return {"attempt": turn.execution.attempt}
        if _resolved(turn):
            return {"attempt": attempt.number, "resolved": True}
        if attempt.state != AttemptState.EXITED:
            turn.act(Do.KILL, turn.incident.title, args={"attempt": attempt.number})
        runs.mark_stopping(attempt, turn.now)
        runs.set_state(turn.run, expected=[RunState.RUNNING, RunState.WAITING], to=RunState.RECOVERING)
        turn.context.update(_before(turn))
        away = _away(turn)
        if away:
            runs.send_stop(turn.run, attempt, turn.now)
            return {"attempt": attempt.number, "away": away}
        grace = _grace_s(turn)
        args = {"run": turn.run.name, "attempt": attempt.number, "grace_s": grace}
        turn.command(turn.run.launcher, "attempt.stop", args, within_s=WITHIN_S)
        return {"attempt": attempt.number, "grace_s": grace}

    def preview(self, turn: Turn) -> str | None:
        """Name the attempt and the nodes whose ranks are ended."""
        attempt = turn.broken
        if attempt is None or attempt.state == AttemptState.EXITED:
            return f"make sure that no rank of attempt {turn.execution.attempt} is left"
        return f"stop attempt {attempt.number} on {', '.join(attempt.nodes)}"

    def look(self, turn: Turn) -> Outcome:
        """Be done when the launcher has proved that no rank is left."""
        if turn.tried.intent.get("resolved"):
            return End(ExecutionState.SUCCEEDED, "the incident was resolved meanwhile; nothing was touched")
        if away := turn.tried.intent.get("away"):
            return Failed(str(away), retry=False)
        command = next(iter(turn.commands()), None)
        if command is not None and not finished(command):
            return self._unanswered(turn)
        if command is not None and not succeeded(command):
            return Failed(refusal(command))
        survivors = answer(command).get("survivors") if command else []
        if survivors:
            return Failed(f"{len(survivors)} ranks are still alive")
        close_broken(turn)
        return Done({"stopped": True})

    def _unanswered(self, turn: Turn) -> Outcome:
        away, attempt = _away(turn), turn.broken
        if not away or attempt is None:
            return Wait(turn.in_s(POLL_S), turn.spec.waits_for)
        runs.send_stop(turn.run, attempt, turn.now)
        return Failed(away, retry=False)


def _grace_s(turn: Turn) -> float:
    if turn.tried.try_number > 1:
        return 0.0
    return CRASH_GRACE_S if turn.incident.klass == ending.CRASH else GRACE_S


def _away(turn: Turn) -> str:
    """Say that the launcher is silent where nobody need wait for it, "" otherwise."""
    heard = next((node.last_seen_at for node in fleet.nodes_for([turn.run.launcher])), None)
    if not turn.spec.optional or heard is None or turn.now - heard < LEASE:
        return ""
    return f"the launcher {turn.run.launcher} gives no sign, so the nodes' own agents are asked"


def _resolved(turn: Turn) -> bool:
    """Hold the incident while the attempt is marked: it cannot recover by itself in between.

    What has recovered ends the whole runbook: the rungs behind this one must not go on.
    """
    incident = Incident.objects.select_for_update(no_key=True).get(pk=turn.incident.pk)
    return incident.state == IncidentState.RESOLVED


def _before(turn: Turn) -> dict[str, Any]:
    """Note how far the run had got, on the first try: losses are measured against it, whoever stops it in the end."""
    if "last_step" in turn.context:
        return {}
    attempt, run = turn.broken, turn.run
    last_at = attempt.last_step_at if attempt else None
    begun = last_at or (attempt.started_at if attempt else None)
    return {
        "high_water": run.high_water_step,
        "last_step": (attempt.last_step if attempt else None) or (attempt.resume_step if attempt else 0),
        "last_progress_at": seconds(begun or turn.incident.began_at),
    }


def close_broken(turn: Turn) -> None:
    """Record the end of the attempt once it is proved."""
    attempt = turn.broken
    if attempt is not None and attempt.state != AttemptState.EXITED:
        runs.close_attempt(attempt, "killed", turn.now)
