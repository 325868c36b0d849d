"""Stop nothing on suspicion: wait until the finding is confirmed or clears by itself.

This is the last step without an effect on the run, so the guards stand here: the
run's switch and the bucket of restarts are asked at the moment of the act, not at
the moment of the first suspicion. A hang that clears costs no token.
"""

from controlplane.incidents import queries as incidents
from controlplane.runbooks import guards
from controlplane.runbooks.models import ExecutionState
from controlplane.runbooks.outcomes import Done, End, Outcome, Propose, Wait
from controlplane.runbooks.steps.base import Step
from controlplane.runbooks.turn import Turn
from controlplane.runs.models import Mode

POLL_S = 30.0


class Confirm(Step):
    """A crash is confirmed at once; a hang by evidence or by time."""

    def look(self, turn: Turn) -> Outcome:
        """Ask the findings of the attempt how sure they are; they have told the confirmation themselves."""
        diagnosis = incidents.diagnosis(turn.incident, turn.now, attempt=turn.execution.attempt)
        if diagnosis is None or diagnosis.cleared_up:
            return End(ExecutionState.SUCCEEDED, "it recovered by itself; nothing was touched")
        if not diagnosis.confirmed:
            return Wait(turn.in_s(POLL_S), turn.spec.waits_for)
        held = _gate(turn)
        return held or Done({"why": diagnosis.title, "fingerprint": diagnosis.fingerprint}, told=True)


def _gate(turn: Turn) -> Outcome | None:
    """Let the act through, or ask a person."""
    if turn.execution.approved_by:
        return None
    if turn.run.mode != Mode.AUTOPILOT:
        return Propose(turn.run.mode, f"the run is set to {turn.run.mode}")
    key = f"{turn.run.pk}:{turn.execution.attempt}:{turn.incident.pk}"
    if not guards.spend(turn.run, turn.policy, key, turn.now):
        return Propose("bucket", "all restarts are spent for now")
    return None
