"""Take back what an execution did, last step first.

Taking back a step is a step itself, with an intent, a key and retries of its own, so a
worker may die in the middle of it. It asks the world, not the plan, what there is to
take back: whatever a person changed since is left, and told. Giving back a large share of
the fleet needs two people, as taking it out did (`wide_undo`).
"""

from datetime import datetime
from typing import Any

from django.db.models import Max

from controlplane.domain.errors import Conflict, Refused
from controlplane.domain.recovery.execution import UNDOABLE
from controlplane.domain.recovery.runbook import Runbook, StepSpec
from controlplane.runbooks import registry
from controlplane.runbooks.models import Execution, StepRun
from controlplane.runbooks.queries import live_of
from controlplane.runbooks.turn import Turn
from controlplane.runs.models import Run


def step(turn: Turn) -> StepSpec | None:
    """Return what takes the step at hand back; None when it never began or nothing can."""
    spec = turn.runbook.steps[turn.execution.step_index]
    if not spec.undo or not _begun(turn.execution, turn.execution.step_index):
        return None
    action = registry.action(spec.undo)
    return StepSpec(
        name=spec.name, action=action, limit_s=action.limit_s, retries=action.retries, args=spec.args, said=action.words
    )


def _begun(execution: Execution, index: int) -> bool:
    return execution.steps.filter(index=index, undo=False).exists()


def locked(execution: Execution) -> Execution:
    """Lock an execution that can be taken back. Part of the caller's transaction.

    The execution is locked before its run, as a turn of the engine does. Raises as `actions.undo`.
    """
    if not undoable(execution, registry.of(execution)):
        raise Refused("nothing that it did can be taken back")
    rows = Execution.objects.select_for_update(of=("self",), no_key=True).select_related("run", "incident__run")
    found = rows.filter(pk=execution.pk, state__in=UNDOABLE).first()
    if found is None:  # a proposal is not waited for: whoever answers it locks the run first
        execution.refresh_from_db(fields=["state"])
        raise Conflict(f"the execution is {execution.state} by now")
    Run.objects.select_for_update(no_key=True).get(pk=found.run_id)
    if live_of(found.run).exclude(pk=found.pk).exists():
        raise Conflict(f"another runbook works on {found.run.name}")
    return found


def start(execution: Execution, names: str, now: datetime) -> dict[str, Any]:
    """End the step under way of a `locked` execution, and return what changes about it; `names` asked for it."""
    _end_step(execution, names, now)
    last = execution.steps.filter(undo=False).aggregate(last=Max("index"))["last"] or 0
    return {
        "undo_by": names, "step_index": last, "wake_at": now, "finished_at": None, "outcome": "", "held_by": "",
        "paused_by": "", "stop_after_by": "", "still_since": None,
    }  # fmt: skip


def undoable(execution: Execution, runbook: Runbook) -> bool:
    """Tell whether a step that began has something that takes it back."""
    begun = set(execution.steps.filter(undo=False).values_list("index", flat=True))
    return any(index in begun and spec.undo for index, spec in enumerate(runbook.steps))


def _end_step(execution: Execution, by: str, now: datetime) -> None:
    """A step under way may have done something already, so it is taken back like one that ended."""
    under_way = StepRun.objects.filter(execution=execution, finished_at=None)
    under_way.update(state="skipped", finished_at=now, sentence=f"{by} had the execution taken back")
