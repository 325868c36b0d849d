"""Choose where to go back to before anything is stopped; it may be a person's to choose.

What the workload can skip is what its launcher declared when the attempt began.
"""

from typing import Any

from controlplane.checkpoints import queries as checkpoints
from controlplane.domain.diagnosis.diagnose import Diagnosis
from controlplane.domain.recovery.acts import Do
from controlplane.domain.recovery.rollback import RollbackChoice, choose_rollback
from controlplane.events import queries as events
from controlplane.incidents import queries as incidents
from controlplane.runbooks import points
from controlplane.runbooks.models import Execution, ExecutionState
from controlplane.runbooks.outcomes import Done, End, Failed, Outcome, Propose
from controlplane.runbooks.queries import persons_behind
from controlplane.runbooks.steps.base import Step
from controlplane.runbooks.turn import Turn

LOOKED_AT = 50
SKIPS = "skip_batches"


class ChooseRollback(Step):
    """Ask the ledger for a durable checkpoint from before the onset."""

    def look(self, turn: Turn) -> Outcome:
        """Choose, or call a person with the reason."""
        diagnosis = incidents.diagnosis(turn.incident, turn.now, attempt=turn.execution.attempt)
        if diagnosis is None or diagnosis.cleared_up:
            return End(ExecutionState.SUCCEEDED, "it recovered by itself; nothing was touched")
        onset = _onset(diagnosis, turn)
        choice = _choice(turn, diagnosis, onset)
        if choice.ask and persons_behind(turn.execution) < choice.persons:
            turn.act(Do.PAGE, f"{diagnosis.title}; {choice.ask}", key=f"{turn.execution.attempt}")
            turn.act(Do.ROLLBACK, choice.why, args={"step": choice.step, "skip": choice.skip}, proposed=True)
            return Propose("rollback", choice.ask, persons=choice.persons)
        if choice.step is None:
            return Failed(choice.why, retry=False)
        return Done({**_facts(choice, choice.step), "onset_step": onset})

    def preview(self, turn: Turn) -> str | None:
        """Name the checkpoint and the batches that would be left out."""
        diagnosis = incidents.diagnosis(turn.incident, turn.now, attempt=turn.execution.attempt)
        choice = _choice(turn, diagnosis, _onset(diagnosis, turn)) if diagnosis else None
        if choice is None or choice.step is None:
            return super().preview(turn)
        turn.context["restore_step"] = choice.step
        skip = f" and leave out the batches {choice.skip[0]} to {choice.skip[1]}" if choice.skip else ""
        lost = max(0, turn.run.high_water_step - choice.step)
        return f"go back to the checkpoint of step {choice.step}, which gives up {lost} steps{skip}"


def _choice(turn: Turn, diagnosis: Diagnosis, onset: int) -> RollbackChoice:
    attempt = turn.broken
    return choose_rollback(
        checkpoints.candidates(turn.run, suspects=points.suspect_steps(turn.run)),
        onset,
        supports_skip=_can_skip(turn),
        transient=bool(diagnosis.facts.get("transient")) or diagnosis.act_on is not None,
        earlier=_earlier(turn),
        resumed_step=attempt.resume_step if attempt else None,
    )


def _onset(diagnosis: Diagnosis, turn: Turn) -> int:
    """The step that the finding names; without one the furthest step, which is never before it."""
    return diagnosis.onset_step if diagnosis.onset_step is not None else turn.run.high_water_step


def _can_skip(turn: Turn) -> bool:
    """Tell whether the attempt's launcher declared that batches can be skipped."""
    started = events.latest("attempt.started", run=turn.run.name)
    supports = started.signal().data.get("supports") if started else None
    return isinstance(supports, list) and SKIPS in supports


def _earlier(turn: Turn) -> list[int]:
    """Return the onsets that earlier rollbacks of the run answered."""
    done = Execution.objects.filter(run=turn.run, runbook=turn.runbook.id, context__has_key="launched_at")
    onsets = [item.context.get("onset_step") for item in done.exclude(pk=turn.execution.pk).order_by("-pk")[:LOOKED_AT]]
    return [onset for onset in onsets if isinstance(onset, int)]


def _facts(choice: RollbackChoice, step: int) -> dict[str, Any]:
    skip = list(choice.skip) if choice.skip else None
    return {"step": step, "restore_step": step, "path": choice.path, "why": choice.why, "skip": skip}
