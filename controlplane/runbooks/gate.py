"""The last question before an act on a run: may this be done without a person?

The choice was made earlier, perhaps at a first suspicion, so the switches, the modes,
the breaker and the buckets are asked again in the transaction that writes the act. A
hang that clears costs no token. A person's approval answers all of it but the kill
switch, which stops approved work too.
"""

from controlplane.domain.checkpoints.restore import RestoreChoice
from controlplane.domain.chronicle.words import duration
from controlplane.domain.diagnosis.diagnose import Diagnosis
from controlplane.domain.errors import Refused
from controlplane.domain.recovery import modes
from controlplane.domain.recovery.actions import Effect
from controlplane.domain.recovery.holds import HeldBy
from controlplane.incidents import queries as incidents
from controlplane.runbooks import guards, overrides, points
from controlplane.runbooks.facts import age_s
from controlplane.runbooks.models import Execution
from controlplane.runbooks.outcomes import Outcome, Propose
from controlplane.runbooks.turn import Turn
from controlplane.runs import automation
from controlplane.runs.models import Run

BACK = "back"
LET_THROUGH = "let_through"
"""Fact of the context: the guards that count have been asked for this execution."""


def may_start(execution: Execution) -> None:
    """Refuse a person's yes where no yes helps: automation is off, or the runbook is only to watch.

    Raises:
        Refused: naming who or what stands against it.
    """
    may_act(execution.runbook, execution.run)


def may_act(runbook_id: str, run: Run) -> None:
    """Refuse the same of a runbook that has not begun; raises as `may_start`."""
    off = automation.standing(run).why_off
    if off:
        raise Refused(off)
    said = overrides.of(run).get(runbook_id, "")
    if "watch" in (run.mode, said):
        raise Refused(f"{runbook_id} is set to watch for {run.name}: nothing acts on it")


def ask(turn: Turn, diagnosis: Diagnosis) -> Outcome | None:
    """Let the first act through with None, or ask a person; one restart is spent."""
    if turn.execution.approved_by:
        return None
    if diagnosis.mode != "act":
        return Propose(HeldBy.RULE.value, "the rule behind this finding is set to propose only")
    return _mode(turn) or _first(turn, spends=True)


def before_act(turn: Turn) -> Outcome | None:
    """Ask once more where an act begins; for a runbook that confirmed nothing this is the first time."""
    person = turn.execution.approved_by or turn.execution.undo_by
    if person or turn.spec.action.effect is not Effect.ACTS or not _begins(turn):
        return None
    passed = turn.context.get(LET_THROUGH)
    return _mode(turn) or (None if passed else _first(turn, spends=turn.runbook.launches))


def too_far_back(turn: Turn, choice: RestoreChoice) -> Outcome | None:
    """Ask a person before much work is given up because checkpoints are distrusted (methods 8)."""
    passed = sorted(step for step in points.suspect_steps(turn.run) if step > choice.step)
    if turn.execution.approved_by or not passed:
        return None
    if len(passed) > turn.policy.back_checkpoints:
        return Propose(
            BACK, f"{len(passed)} checkpoints are distrusted, so the run would go back to step {choice.step}"
        )
    lost = points.work_since(turn.run, choice.step)
    if lost <= turn.policy.back_s:
        return None
    return Propose(BACK, f"going back to step {choice.step} would give up {duration(lost)} of work")


def _begins(turn: Turn) -> bool:
    return turn.step_run is None or turn.step_run.finished_at is not None


def _mode(turn: Turn) -> Outcome | None:
    said = overrides.of(turn.run).get(turn.runbook.id, "")
    found = modes.allowed(turn.run.mode, turn.runbook, said)
    return None if found.mode == modes.AUTOPILOT else Propose(found.mode, found.why)


def _first(turn: Turn, *, spends: bool) -> Outcome | None:
    """Ask what counts acts and their grounds; let the execution through once for all its steps."""
    held = _breaker(turn) or _aged(turn) or (_spend(turn) if spends else None)
    if held is None:
        turn.context[LET_THROUGH] = True
    return held


def _breaker(turn: Turn) -> Outcome | None:
    why = automation.standing(turn.run).why_opened
    return Propose(HeldBy.BREAKER.value, why) if why else None


def _aged(turn: Turn) -> Outcome | None:
    """Old news never acts, also when a hold kept the execution still for long."""
    found_at = incidents.found_at(turn.incident, turn.now, young_s=turn.policy.finding_age_s)
    age = age_s(found_at, automation.standing(turn.run), turn.now)
    if age <= turn.policy.finding_age_s:
        return None
    return Propose(HeldBy.AGE.value, f"it was found {age / 3600:.0f} h ago, so a person says whether it still holds")


def _spend(turn: Turn) -> Outcome | None:
    key = f"{turn.run.pk}:{turn.execution.attempt}:{turn.incident.pk}"
    guards.one_at_a_time()
    touched = guards.runs_touched(turn.run, turn.policy, turn.now)
    if touched >= guards.most_runs(touched) and not guards.spent(key):
        return Propose(HeldBy.RUNS.value, "automation acted on as many other runs a moment ago as it may at once")
    if not guards.spend(turn.run, turn.policy, key, turn.now):
        return Propose(HeldBy.BUCKET.value, "all restarts are spent for now")
    return None
