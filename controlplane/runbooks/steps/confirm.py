"""Stop nothing on suspicion: wait until the finding is confirmed or clears by itself.

This is the last step without an effect on the run, so the guards stand here: the
run's switch and the bucket of restarts are asked at the moment of the act, not at
the moment of the first suspicion. A hang that clears costs no token.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from controlplane.domain.diagnosis.diagnose import Diagnosis
from controlplane.domain.recovery.conditions import STOPPING
from controlplane.events import queries as events
from controlplane.incidents import queries as incidents
from controlplane.runbooks import exclusions, gate
from controlplane.runbooks.models import ExecutionState
from controlplane.runbooks.outcomes import Done, End, Outcome, Wait
from controlplane.runbooks.steps import early_scan
from controlplane.runbooks.steps.base import Step
from controlplane.runbooks.turn import Turn
from controlplane.runs.models import Attempt, AttemptState
from controlplane.runs.times import moment, seconds

CRASH = "crash"
POLL_S = 30.0
JOB_POLL_S = 2.0
COMPARED = frozenset({"checkpoint_poison", "workload_error", "crash_loop"})
"""Classes found at a crash by comparing it with earlier ones; the crash itself may be told elsewhere."""
AT_ONCE = "gpu_fault"
"""A machine's own word condemns it before anything else is done."""
NO_EXIT_MARGIN_S = 5.0
"""The class that says that the job does not end comes first; this is for runs that switched that rule off."""
MARGIN_S = 1.0
"""A moment goes through a float; the first death must not be lost to its rounding."""


class Confirm(Step):
    """A crash is confirmed at once; a hang by evidence or by time."""

    def begin(self, turn: Turn) -> Mapping[str, Any]:
        """After a crash have the checkpoints looked at meanwhile."""
        if turn.incident.klass == CRASH and turn.runbook.does("choose_checkpoint"):
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
    if not running or waited >= turn.policy.no_exit_s + NO_EXIT_MARGIN_S:
        return False
    return not (_explained(turn, diagnosis, waited) and _has_begun_to_end(attempt, diagnosis))


def _explained(turn: Turn, diagnosis: Diagnosis, waited: float) -> bool:
    """Say whether the first death names its own cause, so that the ends of the others add nothing to it.

    An exception may be one that all ranks raise: it is believed once the companions had time to report.
    """
    kind = diagnosis.facts.get("cause_kind")
    return kind == "signal" or (kind == "error" and waited >= turn.policy.settle_s)


def _has_begun_to_end(attempt: Attempt, diagnosis: Diagnosis) -> bool:
    """Say whether a second rank has died: then the job ends, and the rest may be ended for it.

    Asked of the log, because the finding gathers companions' reports for a while before it tells them.
    """
    since = moment(diagnosis.began) - timedelta(seconds=MARGIN_S)
    ends = events.of_attempt(("rank.exited",), run=attempt.run.name, attempt=attempt.number, since=since)
    return len({end.rank for end in ends if end.data.get("exit_code") != 0}) > 1


def _only_crashed(diagnosis: Diagnosis) -> bool:
    """Nothing says that the job stands still for good: no hang, no lost node, no survivors that go on."""
    return diagnosis.stands & STOPPING <= {"crash"}
