"""What a runbook execution does now, what follows, and when it gives up waiting."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from controlplane.runbooks.models import Execution, ExecutionState, StepRun
from controlplane.web.present import badges
from controlplane.web.present.words import Badge, number, span

FINAL = (ExecutionState.SUCCEEDED, ExecutionState.FAILED, ExecutionState.STOPPED, ExecutionState.REJECTED)
ENDED_STEP = ("done", "skipped", "failed")

DOING = {
    "collect": "collecting stacks before anything is stopped",
    "confirm": "waiting until the finding is certain",
    "stop": "stopping what is left of attempt {attempt}",
    "choose_checkpoint": "choosing the restore point",
    "choose_nodes": "choosing the nodes",
    "launch": "launching attempt {next_attempt}",
    "await_progress": "waiting for a new high-water step",
    "close": "measuring what was lost",
}
NEXT = {
    "collect": "collect stacks",
    "confirm": "make the finding certain",
    "stop": "stop what is left of attempt {attempt}",
    "choose_checkpoint": "choose the newest complete checkpoint",
    "choose_nodes": "choose the nodes",
    "launch": "restart {where}",
    "await_progress": "wait for a new high-water step",
    "close": "close with the measured losses",
}


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
    """An execution in words; `until` is when the step under way gives up."""

    badge: Badge
    doing: str
    next: str
    until: datetime | None
    lines: tuple[StepLine, ...]
    final: bool


def progress(execution: Execution, steps: Sequence[StepRun], names: Sequence[str], now: datetime) -> Progress:
    """Say where an execution stands. `steps` are its tries in order, `names` its runbook's steps."""
    final = execution.state in FINAL
    return Progress(
        badge=badges.of(badges.EXECUTION, execution.state),
        doing=_doing(execution, names),
        next="" if final else _next(execution, names),
        until=None if final else _until(steps, now),
        lines=tuple(_line(execution, steps, index, name, now) for index, name in enumerate(names)),
        final=final,
    )


def _doing(execution: Execution, names: Sequence[str]) -> str:
    if execution.state in FINAL:
        return execution.outcome or badges.of(badges.EXECUTION, execution.state).word.lower()
    if execution.state == ExecutionState.PROPOSED:
        return "nothing until somebody approves"
    if execution.state == ExecutionState.PAUSED:
        return f"paused before going on with {_say(NEXT, execution, _name(names, execution.step_index))}"
    words = _say(DOING, execution, _name(names, execution.step_index))
    return f"{words} · step {min(execution.step_index + 1, len(names))} of {len(names)}"


def _next(execution: Execution, names: Sequence[str]) -> str:
    ahead = execution.step_index + (execution.state != ExecutionState.PROPOSED)
    following = _name(names, ahead)
    return _say(NEXT, execution, following) if following else "nothing more; the incident closes"


def _name(names: Sequence[str], index: int) -> str:
    return names[index] if index < len(names) else ""


def _say(table: dict[str, str], execution: Execution, name: str) -> str:
    words = table.get(name, name.replace("_", " "))
    return words.format(attempt=execution.attempt, next_attempt=execution.attempt + 1, where=_where(execution))


def _where(execution: Execution) -> str:
    step = resume_step(execution)
    if step is None:
        return "from the restore point"
    return f"from step {number(step)}" if step else "from the beginning"


def resume_step(execution: Execution) -> int | None:
    """Find the step that the next attempt starts from, once it is chosen."""
    step = execution.context.get("resume_step")
    return int(step) if isinstance(step, int) else None


def _until(steps: Sequence[StepRun], now: datetime) -> datetime | None:
    open_steps = [step for step in steps if step.state not in ENDED_STEP and step.deadline]
    deadline = open_steps[-1].deadline if open_steps else None
    return deadline if deadline and deadline > now else None


def _line(execution: Execution, steps: Sequence[StepRun], index: int, name: str, now: datetime) -> StepLine:
    tries = [step for step in steps if step.index == index]
    last = tries[-1] if tries else None
    state = last.state if last else "todo"
    return StepLine(
        name=name.replace("_", " "),
        badge=badges.of(badges.STEP, state),
        sentence=(last.sentence if last else "") or _say(NEXT, execution, name),
        took=span(((last.finished_at or now) - last.started_at).total_seconds()) if last else "",
        tries=len(tries),
        current=bool(last) and state not in ENDED_STEP,
    )
