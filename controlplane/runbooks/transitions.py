"""Write down what a turn came to; each function runs inside the turn's transaction."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from controlplane.domain.chronicle import sentences
from controlplane.domain.recovery import execution as rules
from controlplane.domain.recovery.acts import Do
from controlplane.domain.recovery.execution import After
from controlplane.fleet import actions as fleet
from controlplane.incidents.telling import shown
from controlplane.runbooks import approvals, registry, writing
from controlplane.runbooks.models import ExecutionState, StepRun
from controlplane.runbooks.outcomes import Done, End, Failed, Outcome, Propose, Still, Wait
from controlplane.runbooks.turn import Turn
from controlplane.runs.models import Run
from controlplane.runs.times import moment, seconds
from controlplane.runs.watching_again import watch_again

STILL_POLL_S = 2.0


def begin(turn: Turn, *, quietly: bool = False) -> bool:
    """Intend a step and leave the commands that carry it out; False when a retry has to wait for its pause.

    What it comes to is settled in the same transaction, which writes the intent, so both
    are there or neither is, and no command leaves before its intent. `quietly` leaves no
    command, for a step that cannot even begin.
    """
    last = turn.step_run
    if last is not None and turn.execution.wake_at is not None and turn.now < turn.execution.wake_at:
        return False
    turn.step_run = StepRun(
        execution=turn.execution, index=turn.execution.step_index, name=turn.spec.name, undo=turn.undoing,
        try_number=_next_try(turn, last), state="intended", started_at=turn.now, deadline=turn.in_s(turn.spec.limit_s),
    )  # fmt: skip
    intent = {} if quietly else registry.step(turn.spec.action.name).begin(turn)
    turn.step_run.intent = dict(intent)
    turn.step_run.sentence = turn.spec.words("doing", {**turn.context, **intent})
    return True


def _next_try(turn: Turn, last: StepRun | None) -> int:
    """Number tries on through an undo, since each has a key of its own."""
    if last is None and turn.undoing:
        last = turn.execution.steps.filter(index=turn.execution.step_index).order_by("-try_number").first()
    return last.try_number + 1 if last else 1


def settle(turn: Turn, outcome: Outcome) -> bool:
    """Write an outcome down; say whether another turn may follow at once."""
    if not isinstance(outcome, Still):
        _move_again(turn)
    match outcome:
        case Done():
            return _done(turn, outcome)
        case Wait():
            return _wait(turn, outcome)
        case Failed():
            return _failed(turn, outcome)
        case Still():
            return _still(turn, outcome)
        case Propose():
            return _propose(turn, outcome)
        case End():
            return _end(turn, outcome)


def _done(turn: Turn, outcome: Done) -> bool:
    tried, facts = turn.tried, {**turn.context, **turn.tried.intent, **outcome.result}
    _finish(turn, tried, "undone" if turn.undoing else "done", sentences.step_done(turn.spec, facts), outcome.result)
    turn.context.update(outcome.result)
    if not outcome.told:
        turn.tell("step", tried.sentence, key=f"{tried.index}:{tried.try_number}", data={"step": tried.name})
    return _next(turn)


def _next(turn: Turn) -> bool:
    if turn.undoing:
        return earlier(turn)
    if turn.execution.step_index + 1 == len(turn.runbook.steps):
        return _end(turn, End(ExecutionState.SUCCEEDED, turn.tried.sentence))
    by = turn.execution.stop_after_by
    if by:
        return _end(turn, End(ExecutionState.STOPPED, f"{by} stopped it behind the step {turn.spec.name}", by))
    turn.execution.step_index += 1
    _save(turn, ExecutionState.RUNNING, wake_at=turn.now)
    return True


def earlier(turn: Turn) -> bool:
    """Go on taking back with the step before; behind the first one everything is taken back that can be."""
    if turn.execution.step_index == 0:
        return _end(turn, End(ExecutionState.UNDONE, _taken_back(turn)))
    turn.execution.step_index -= 1
    _save(turn, ExecutionState.UNDOING, wake_at=turn.now)
    return True


def _taken_back(turn: Turn) -> str:
    """Say who took back what it did, and which steps stay since taking them back failed."""
    tries = {tried.index: tried for tried in turn.execution.steps.filter(undo=True).order_by("try_number")}
    if turn.step_run is not None:
        tries[turn.step_run.index] = turn.step_run
    left = [tries[index].name.replace("_", " ") for index in sorted(tries) if tries[index].state == "skipped"]
    told = f"{turn.execution.undo_by} took back what it did"
    return f"{told}, except for: {', '.join(left)}" if left else told


def _finish(turn: Turn, tried: StepRun, state: str, sentence: str, result: Mapping[str, Any]) -> None:
    rules.check_step(tried.state, state)
    tried.state, tried.sentence, tried.finished_at = state, sentence, turn.now
    tried.result = dict(result)


def _wait(turn: Turn, outcome: Wait) -> bool:
    tried = turn.tried
    tried.state, tried.sentence = "waiting", outcome.for_what or f"waiting for {turn.spec.waits_for}"
    until = min(outcome.until, tried.deadline or outcome.until)
    _save(turn, ExecutionState.WAITING, wake_at=until)
    return False


def _failed(turn: Turn, outcome: Failed) -> bool:
    tried = turn.tried
    sentence = sentences.step_failed(turn.spec, {**turn.context, **tried.intent, "why": outcome.why})
    verdict = rules.after_failure(
        turn.spec, try_number=tried.try_number, why=outcome.why, now=seconds(turn.now), retry=outcome.retry
    )
    skipped = verdict.after is After.SKIP or (turn.undoing and verdict.after is After.GIVE_UP)
    _finish(turn, tried, "skipped" if skipped else "failed", sentence, {"why": outcome.why})
    turn.tell("step", sentence, key=f"{tried.index}:{tried.try_number}", data={"step": tried.name})
    if skipped:
        return _next(turn)
    if verdict.after is After.RETRY:
        _save(turn, ExecutionState.WAITING, wake_at=moment(verdict.at))
        return False
    return _end(turn, End(ExecutionState.FAILED, sentence))


def _still(turn: Turn, outcome: Still) -> bool:
    execution = turn.execution
    if execution.still_since is None:
        execution.still_since = turn.now
        turn.tell("hold", f"The runbook waits: {outcome.why}.", key=f"still:{seconds(turn.now)}")
    _save(turn, ExecutionState.WAITING, wake_at=turn.in_s(STILL_POLL_S), held_by=outcome.held_by)
    return False


def _move_again(turn: Turn) -> None:
    """After a hold or pause the limit of the step at hand runs on from where it stopped."""
    since, turn.execution.still_since = turn.execution.still_since, None
    tried = turn.step_run
    if since is None or tried is None or tried.deadline is None or tried.finished_at is not None:
        return
    tried.deadline += max(turn.now - since, timedelta(0))


def _propose(turn: Turn, outcome: Propose) -> bool:
    if turn.execution.stop_after_by:
        by = turn.execution.stop_after_by
        return _end(turn, End(ExecutionState.STOPPED, f"{by} stopped it", by))
    told = f"Proposed “{turn.runbook.title}” and waits for a person: {outcome.why}."
    turn.tell("proposal", told, key=f"propose:{turn.execution.step_index}", data={"held_by": outcome.held_by})
    _save(turn, ExecutionState.PROPOSED, wake_at=None, held_by=outcome.held_by)
    writing.keep(turn.execution, [turn.step_run] if turn.step_run is not None else [])
    approvals.ask(turn.execution, outcome.why, turn.now, step=turn.spec.name, persons=outcome.persons)
    return False


def _end(turn: Turn, outcome: End) -> bool:
    tried = turn.step_run
    if tried is not None and tried.finished_at is None:
        _finish(turn, tried, "skipped", outcome.outcome, {})
    execution = turn.execution
    execution.outcome, execution.finished_at = outcome.outcome, turn.now
    asked_to_stop = execution.stop_after_by if outcome.state == ExecutionState.FAILED else ""
    execution.stopped_by = outcome.by or asked_to_stop
    _save(turn, ExecutionState.STOPPED if asked_to_stop else outcome.state, wake_at=None)
    goes_on = execution.state in (ExecutionState.STOPPED, ExecutionState.UNDONE)
    if goes_on:  # the run before its commands, as sweeps do
        Run.objects.select_for_update(no_key=True).get(pk=execution.run_id)
    fleet.recall_commands(turn.now, execution_id=execution.pk)
    if goes_on:
        watch_again(turn.run, turn.now, turn.book)
    if outcome.state != ExecutionState.SUCCEEDED or execution.step_index + 1 < len(turn.runbook.steps):
        told = sentences.ended(turn.runbook, str(execution.state), outcome.outcome)
        turn.tell("decision", told, key="end")
    return False


def give_up(turn: Turn, why: str) -> bool:
    """End what nobody can carry on, whatever step it stands at, and call a person."""
    turn.act(
        Do.PAGE,
        f"“{turn.runbook.title}” on {turn.run.name} ended unfinished: {why}",
        key=f"{turn.execution.pk}:gave up",
    )
    return _end(turn, End(ExecutionState.STOPPED if turn.undoing else ExecutionState.FAILED, why))


def _save(turn: Turn, state: str, *, wake_at: datetime | None, held_by: str = "") -> None:
    execution = turn.execution
    if turn.undoing and state in (ExecutionState.RUNNING, ExecutionState.WAITING):
        state = ExecutionState.UNDOING
    if execution.state != state:
        rules.check(execution.state, state)
    execution.state, execution.wake_at, execution.held_by = state, wake_at, held_by
    shown(turn.incident)


def write(turns: Sequence[Turn]) -> None:
    """Write what the turns of one transaction came to: their tries, the execution, and what is told of it."""
    execution, lease = turns[-1].execution, turns[-1].lease
    if lease is not None:
        execution.lease_until = lease.renewed()
    writing.keep(execution, [tried for turn in turns if (tried := turn.step_run) is not None])
    turns[-1].book.write()
