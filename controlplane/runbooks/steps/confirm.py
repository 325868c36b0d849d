"""Stop nothing on suspicion: wait until the finding is confirmed or clears by itself.

This is the last step without an effect on the run, so the guards stand here: the
run's switch and the bucket of restarts are asked at the moment of the act, not at
the moment of the first suspicion. A hang that clears costs no token.
"""

from collections.abc import Mapping
from typing import Any

from controlplane.domain.diagnosis.diagnose import Diagnosis
from controlplane.domain.recovery.conditions import STOPPING
from controlplane.incidents import queries as incidents
from controlplane.runbooks import exclusions, gate
from controlplane.runbooks.models import ExecutionState
from controlplane.runbooks.outcomes import Done, End, Outcome, Wait
from controlplane.runbooks.steps import early_scan, ending
from controlplane.runbooks.steps.base import Step
from controlplane.runbooks.turn import Turn
from controlplane.runs.models import AttemptState
from controlplane.runs.times import seconds

POLL_S = 30.0
JOB_POLL_S = 2.0
COMPARED = frozenset({"checkpoint_poison", "workload_error", "crash_loop"})
"""Classes found at a crash by comparing it with earlier ones; the crash itself may be told elsewhere."""
AT_ONCE = "gpu_fault"
"""A machine's own word condemns it before anything else is done."""
NO_EXIT_MARGIN_S = 5.0
"""The class that says that the job does not end comes first; this is for runs that switched that rule off."""


class Confirm(Step):
    """A crash is confirmed at once; a hang by evidence or by time."""

    def begin(self, turn: Turn) -> Mapping[str, Any]:
        """After a crash have the checkpoints looked at meanwhile."""
        if turn.incident.klass == ending.CRASH and turn.runbook.does("choose_checkpoint"):
            early_scan.ask(turn, early_scan.MARK)
        return {}

    def look(self, turn: Turn) -> Outcome:
        """Ask the findings of the attempt how sure they are; they have told the confirmation themselves."""
        diagnosis = incidents.diagnosis(turn.incident, turn.now, attempt=turn.execution.attempt)
        if diagnosis is None or diagnosis.cleared_up:
            return End(ExecutionState.SUCCEEDED, "it recovered by itself; nothing was touched")
        if not diagnosis.confirmed:
            return Wait(turn.in_s(POLL_S), turn.spec.waits_for)
        held = gate.ask(turn, diagnosis)
        if held is not None:
            return held
        if diagnosis.klass == AT_ONCE:
            exclusions.condemn(turn, diagnosis)
        if _ends_by_itself(turn, diagnosis):
            return Wait(turn.in_s(JOB_POLL_S), "the job to end by itself")
        return Done({"why": diagnosis.title, "fingerprint": diagnosis.fingerprint}, told=True)


def _ends_by_itself(turn: Turn, diagnosis: Diagnosis) -> bool:
    """A job whose rank died usually ends within seconds; killing it at once would hide how it ended (D-03)."""
    attempt = turn.broken
    if attempt is None or attempt.state == AttemptState.EXITED or not _only_crashed(diagnosis):
        return False
    waited = seconds(turn.now) - diagnosis.began
    running = diagnosis.facts.get("job_running", diagnosis.klass in COMPARED)
    return bool(running) and waited < turn.policy.no_exit_s + NO_EXIT_MARGIN_S and not ending.begun(turn, diagnosis)


def _only_crashed(diagnosis: Diagnosis) -> bool:
    """Nothing says that the job stands still for good: no hang, no lost node, no survivors that go on."""
    return diagnosis.stands & STOPPING <= {ending.CRASH}
