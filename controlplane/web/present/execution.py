"""What a runbook execution does now, what follows, and when it gives up waiting."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from controlplane.domain.recovery.choice import HeldBy
from controlplane.domain.recovery.execution import FINAL
from controlplane.domain.recovery.runbook import Runbook, StepSpec
from controlplane.runbooks.models import Execution, ExecutionState, StepRun
from controlplane.web.present import badges
from controlplane.web.present.words import Badge, number, span

GOING = (ExecutionState.RUNNING, ExecutionState.WAITING)
ENDED_STEP = ("done", "skipped", "failed", "undone")

OF_THE_NEXT = ("launch", "await_progress", "close")
"""Steps whose words speak of the attempt that is being started, not of the one that failed."""

HOLDS = {
    "operator": "an operator holds the run",
    "kill switch": "automation is switched off",
    "partition": "part of the fleet cannot be seen",
    "identity": "two machines use the launcher's name",
    "nodes": "a node is missing; it goes on when one is released or comes back",
    "launcher": "the launcher is silent",
    "storage": "the storage does not answer",
    "rule": "the rule behind the finding only proposes",
}
"""What keeps an execution from its next act, in words; another reason is shown as it is stored."""

UNKNOWN = "?"
VAGUE = {
    "launch": "restart from the restore point",
    "await_progress": "wait for a step beyond all earlier ones",
    "close": "write down what the fault cost",
}
"""Words for a step whose facts are not known before it begins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepLine:
    """One line of the step list."""

    name: str
    badge: Badge
    sentence: str
    took: str
    tries: int
    current: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """An execution in words; `place` counts its steps, `until` is when the step under way gives up.

    `launched` says that the next attempt is there and that only its progress is waited for.
    """

    badge: Badge
    doing: str
    place: str
    next: str
    until: datetime | None
    lines: tuple[StepLine, ...]
    final: bool
    launched: bool = False


def progress(execution: Execution, steps: Sequence[StepRun], runbook: Runbook, now: datetime) -> Progress:
    """Say where an execution stands. `steps` are its tries in order."""
    final = execution.state in FINAL
    return Progress(
        badge=badges.of(badges.EXECUTION, execution.state),
        doing=_doing(execution, runbook),
        place="" if final else _place(execution, runbook),
        next="" if final else _next(execution, runbook),
        until=None if final else _until(execution, steps, now),
        lines=tuple(_line(execution, steps, index, spec, now) for index, spec in enumerate(runbook.steps)),
        final=final,
        launched=execution.state in (*GOING, ExecutionState.PAUSED) and _at(execution, runbook) == "await_progress",
    )


def _doing(execution: Execution, runbook: Runbook) -> str:
    if execution.state in FINAL:
        return execution.outcome or badges.of(badges.EXECUTION, execution.state).word.lower()
    if execution.state == ExecutionState.PROPOSED:
        return "holding back before the next restart" if _backs_off(execution) else "nothing until somebody approves"
    if execution.held_by:
        return f"standing still: {HOLDS.get(execution.held_by, execution.held_by)}"
    spec = _spec(runbook, execution.step_index)
    if execution.state == ExecutionState.UNDOING:
        return f"taking back what it did: {spec.name.replace('_', ' ')}" if spec else "taking back what it did"
    if execution.state == ExecutionState.PAUSED:
        return f"paused before going on: {_say(execution, spec, 'next')}"
    return _say(execution, spec, "doing")


def _place(execution: Execution, runbook: Runbook) -> str:
    if execution.state == ExecutionState.PROPOSED:
        return ""
    return f"step {min(execution.step_index + 1, len(runbook.steps))} of {len(runbook.steps)}"


def _backs_off(execution: Execution) -> bool:
    return execution.held_by == HeldBy.BACKOFF


def _next(execution: Execution, runbook: Runbook) -> str:
    if execution.state == ExecutionState.UNDOING:
        return "take back the steps before it, as far as anything can be taken back"
    if execution.stop_after_by and execution.state in GOING:
        return f"nothing: {execution.stop_after_by} had it end behind this step"
    begun = execution.state not in (ExecutionState.PROPOSED, ExecutionState.PAUSED)
    spec = _expected(runbook, execution.step_index + begun)
    return _say(execution, spec, "next")


def _at(execution: Execution, runbook: Runbook) -> str:
    spec = _spec(runbook, execution.step_index)
    return spec.action.name if spec else ""


def _spec(runbook: Runbook, index: int) -> StepSpec | None:
    return runbook.steps[index] if index < len(runbook.steps) else None


def _expected(runbook: Runbook, index: int) -> StepSpec | None:
    """Find the step from `index` on that is expected to do something: a fallback is for when its forerunner fails."""
    return next((spec for spec in runbook.steps[index:] if not spec.action.fallback), None)


def _say(execution: Execution, spec: StepSpec | None, phase: str) -> str:
    if spec is None:
        return "nothing more; the incident closes"
    return say(spec, _facts(execution, spec), phase)


def say(spec: StepSpec, facts: Mapping[str, object], phase: str = "next") -> str:
    """Put a step into words; vaguer ones where a fact is not known yet."""
    words = spec.words(phase, facts)
    return VAGUE.get(spec.action.name, spec.name.replace("_", " ")) if UNKNOWN in words else words


def _facts(execution: Execution, spec: StepSpec) -> dict[str, object]:
    started = execution.context.get("new_attempt") or execution.attempt + 1
    step = resume_step(execution)
    return {
        **execution.context,
        "attempt": started if spec.action.name in OF_THE_NEXT else execution.attempt,
        "step": number(step) if step is not None else None,
    }


def resume_step(execution: Execution) -> int | None:
    """Find the step that the next attempt starts from, once it is chosen."""
    step = execution.context.get("restore_step")
    return int(step) if isinstance(step, int) else None


def _until(execution: Execution, steps: Sequence[StepRun], now: datetime) -> datetime | None:
    if execution.state == ExecutionState.PROPOSED:
        return execution.wake_at if _backs_off(execution) else None
    if execution.held_by or execution.state == ExecutionState.PAUSED:
        return None
    open_steps = [step for step in steps if step.state not in ENDED_STEP and step.deadline]
    deadline = open_steps[-1].deadline if open_steps else None
    return deadline if deadline and deadline > now else None


def _under_way(execution: Execution, index: int) -> bool:
    """Whether a step is the one at hand, though its first try is not written down yet."""
    return execution.state in GOING and execution.step_index == index


def _line(execution: Execution, steps: Sequence[StepRun], index: int, spec: StepSpec, now: datetime) -> StepLine:
    tries = [step for step in steps if step.index == index]
    last = tries[-1] if tries else None
    state = last.state if last else "intended" if _under_way(execution, index) else "todo"
    return StepLine(
        name=spec.name.replace("_", " "),
        badge=badges.of(badges.STEP, state),
        sentence=(last.sentence if last else "") or _say(execution, spec, "next" if state == "todo" else "doing"),
        took=span(((last.finished_at or now) - last.started_at).total_seconds()) if last else "",
        tries=len(tries),
        current=state not in (*ENDED_STEP, "todo"),
    )
