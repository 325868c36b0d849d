"""Open the next attempt and have the launcher start it.

The attempt, its nodes' new state and the command are written together, so an
attempt exists once however often a worker dies here. The world is read again: a
node that went bad since it was chosen is not launched on. A successor that began by
itself before it was asked for is taken for the attempt, whether the launcher tells so in
its answer or its word came first; one that cannot be used is stopped before the next.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from controlplane.domain.chronicle import sentences
from controlplane.domain.errors import Conflict
from controlplane.domain.fleet.states import USABLE
from controlplane.domain.recovery.acts import Do
from controlplane.fleet import queries as fleet
from controlplane.fleet.models import Node
from controlplane.quarantine import actions as quarantine
from controlplane.runbooks.outcomes import Done, Failed, Outcome, Wait
from controlplane.runbooks.steps.base import Step, answer, finished, refusal, succeeded
from controlplane.runbooks.turn import Turn
from controlplane.runs import actions as runs
from controlplane.runs.models import Attempt, AttemptState
from controlplane.runs.times import seconds

POLL_S = 5.0
WITHIN_S = 60.0
FIT = USABLE | {"suspect"}


class Launch(Step):
    """Launch on the chosen nodes from the chosen checkpoint."""

    def begin(self, turn: Turn) -> Mapping[str, Any]:
        """Open the attempt and send its start."""
        nodes, step = list(turn.context["nodes"]), int(turn.context["restore_step"])
        forestalled = _forestalled(turn)
        if forestalled is not None:
            return _adopted(turn, forestalled)
        _still_fit(nodes)
        attempt = runs.open_attempt(turn.run, nodes, runs.Resume(step, str(turn.context.get("path", ""))), turn.now)
        _assign(turn, nodes, attempt.number)
        args = {"run": turn.run.name, "attempt": attempt.number, "nodes": nodes, "resume": _resume(turn, step)}
        args["exclude"] = [name for name in turn.context.get("excluded") or [] if name not in nodes]
        turn.command(turn.run.launcher, "attempt.start", args, within_s=WITHIN_S)
        _record(turn, nodes, step, attempt.number)
        facts = {"attempt": attempt.number, "new_attempt": attempt.number, "launched_at": seconds(turn.now)}
        turn.context.update(facts)
        return {**facts, "nodes": nodes, "step": step}

    def look(self, turn: Turn) -> Outcome:
        """Be done when the launcher says so, or the attempt shows itself."""
        if unfit := turn.tried.intent.get("unfit"):
            return _abandon(turn, str(unfit))
        command, attempt = next(iter(turn.commands()), None), turn.launched
        if attempt is not None and attempt.state == AttemptState.RUNNING:
            return _under_way(turn, attempt)
        elsewhere = command is not None and succeeded(command) and "nodes" in answer(command)
        if command is not None and succeeded(command) and not elsewhere:
            return Done({"attempt": turn.context["new_attempt"]})
        if command is not None and (elsewhere or not finished(command)):
            return Wait(turn.in_s(POLL_S), turn.spec.waits_for)
        return _abandon(turn, refusal(command) if command else "the launcher was not asked")

    def preview(self, turn: Turn) -> str | None:
        """Name the attempt, its nodes and its first step, as far as they can be foreseen."""
        nodes, step = turn.context.get("nodes"), turn.context.get("restore_step")
        where = f" on {', '.join(nodes)}" if nodes else ""
        since = f" from step {step}" if step is not None else ""
        return f"launch attempt {turn.execution.attempt + 1}{where}{since}"

    def expired(self, turn: Turn) -> Outcome:
        """Close the attempt that never began."""
        return _abandon(turn, f"no answer within {turn.spec.limit_s:g} s")


def _forestalled(turn: Turn) -> Attempt | None:
    """Return the successor that has become the attempt that we would launch, or None."""
    number = turn.execution.attempt + 1
    return turn.run.attempts.filter(number=number, unasked=True).exclude(state=AttemptState.EXITED).first()


def _adopted(turn: Turn, attempt: Attempt) -> dict[str, Any]:
    """Take a successor for the attempt of this execution, and note why it is unfit if it is, by the launcher's rule."""
    nodes, step = list(turn.context["nodes"]), int(turn.context["restore_step"])
    facts = {"attempt": attempt.number, "new_attempt": attempt.number, "launched_at": seconds(turn.now)}
    turn.context.update(facts)
    left_out = sorted({*attempt.nodes} & {*(turn.context.get("excluded") or [])})
    unfit = f"runs on {', '.join(left_out)}" if left_out else ""
    if attempt.resume_step > step or turn.context.get("skip"):
        unfit = "goes on from another step or with other batches"
    told = {"unfit": f"attempt {attempt.number} began by itself and {unfit}"} if unfit else {"forestalled": True}
    return {**facts, **told, "nodes": nodes, "step": step}


def _under_way(turn: Turn, attempt: Attempt) -> Outcome:
    """Take a successor that had become this attempt for our own: where it is and began, its launcher has told."""
    asked = turn.tried.intent
    if (attempt.nodes, attempt.resume_step) == (asked["nodes"], asked["step"]) and "forestalled" not in asked:
        return Done({"attempt": attempt.number})
    _assign(turn, attempt.nodes, attempt.number, mark=":successor", others=asked["nodes"])
    told = sentences.forestalled(attempt.number, attempt.nodes, attempt.resume_step)
    turn.tell("launch", told, key=f"successor:{attempt.number}")
    return Done({"attempt": attempt.number, "nodes": attempt.nodes, "restore_step": attempt.resume_step})


def _resume(turn: Turn, step: int) -> dict[str, Any]:
    """Name the step; a workload that declares it can is told which batches to skip (methods 10)."""
    skip = turn.context.get("skip")
    return {"step": step, "skip": skip} if skip else {"step": step}


def _record(turn: Turn, nodes: list[str], step: int, attempt: int) -> None:
    excluded = list(turn.context.get("excluded") or [])
    for old, new in sorted(dict(turn.context.get("replaced") or {}).items()):
        turn.act(Do.REPLACE, f"{new} takes its place", node=old, args={"with": new}, key=f"attempt {attempt}")
    back = turn.runbook.rolls_back
    args: dict[str, Any] = {"step": step, "nodes": nodes, "exclude": excluded, "attempt": attempt}
    if back:
        args["skip"] = turn.context.get("skip")
    turn.act(Do.ROLLBACK if back else Do.RESTART, turn.incident.title, args=args, key=f"attempt {attempt}")


def _abandon(turn: Turn, why: str) -> Outcome:
    """Close the attempt and have it stopped, for it may begin after all: behind its deadline an agent goes on.

    So may a successor that has become the attempt and cannot be used, for which the start was refused.
    """
    attempt = turn.launched
    if attempt is not None:
        runs.mark_stopping(attempt, turn.now)
        runs.close_attempt(attempt, "failed", turn.now)
        runs.send_stop(turn.run, attempt, turn.now)
    return Failed(why)


def _still_fit(nodes: list[str]) -> None:
    known = {node.name: node for node in fleet.nodes_for(nodes)}
    for name in nodes:
        why = _unfit(known.get(name))
        if why:
            raise Conflict(f"{name} was chosen but is {why} by now")


def _unfit(node: Node | None) -> str:
    if node is None:
        return "unknown"
    if node.held:
        return "held"
    if node.identity_conflict:
        return "claimed by two machines"
    return "" if node.state in FIT else node.state


def _assign(turn: Turn, nodes: list[str], attempt: int, *, mark: str = "", others: Sequence[str] = ()) -> None:
    """Spares that join become healthy; healthy nodes that are not needed, `others` among them, become spares."""
    key, broken = f"execution:{turn.execution.pk}:{attempt}{mark}", turn.broken
    quarantine.join(nodes, f"joined attempt {attempt} of {turn.run.name}", now=turn.now, key=key, book=turn.book)
    left = [name for name in dict.fromkeys([*(broken.nodes if broken else []), *others]) if name not in nodes]
    quarantine.leave(left, f"not used by attempt {attempt} of {turn.run.name}", now=turn.now, key=key, book=turn.book)
