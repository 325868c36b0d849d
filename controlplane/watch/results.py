"""Write down what agents report on their commands, and what follows where no runbook waits for it."""

import logging
from collections.abc import Mapping, Sequence
from datetime import datetime

from controlplane.domain.chronicle import scheduling, sentences
from controlplane.domain.errors import MiddlewatchError
from controlplane.domain.signals import Signal
from controlplane.fleet import actions as fleet
from controlplane.fleet.commands import FINAL
from controlplane.fleet.models import Command, CommandState
from controlplane.runbooks.queries import live_of
from controlplane.runs import actions as runs
from controlplane.runs.book import Book
from controlplane.runs.models import Attempt, AttemptState
from controlplane.runs.watching_again import ends, watch_again

log = logging.getLogger(__name__)

MAX_TOLD = 300
MAX_KEY = 200
ASKED = frozenset({"nodes.drain", "nodes.resume", "ranks.stop"})
FAILED = frozenset({CommandState.FAILED, CommandState.REFUSED, CommandState.EXPIRED})


def record(signals: Sequence[Signal], now: datetime, book: Book) -> list[Command]:
    """Record every `command.result` among `signals`; return the commands. Part of the caller's transaction."""
    return [command for signal in signals if signal.kind == "command.result" and (command := _one(signal, now, book))]


def _one(signal: Signal, now: datetime, book: Book) -> Command | None:
    try:
        command = fleet.record_result(str(signal.data.get("command_id")), signal.data, now, node=signal.node)
    except MiddlewatchError as error:
        log.warning("a result of %s was not recorded: %s", signal.node, error)
        return None
    ended(command, now, book)
    return command


def ended(command: Command, now: datetime, book: Book) -> None:
    """Close an attempt that a person launched or stopped, by the launcher's word; runbooks see to their own.

    A stop that comes to nothing after its runbook has ended leaves a training that somebody has to watch.
    """
    if ends(command) and command.state in FAILED:
        _spared(command, now, book)
    if command.execution_id is not None:
        return
    if command.kind in ASKED:
        _in_vain(command, book)
    if command.kind == "attempt.start" and command.state in FAILED:
        _unlaunched(command, now, book)
    elif command.kind == "attempt.stop" and command.state == CommandState.SUCCEEDED:
        _stopped(command, now, book)
    elif command.kind == "switch.arm" and command.state in FINAL:
        _switched(command, book)


def _spared(command: Command, now: datetime, book: Book) -> None:
    attempt = _attempt(command)
    if attempt is not None and attempt.stopping_at is not None and not live_of(attempt.run).exists():
        watch_again(attempt.run, now, book)


def _switched(command: Command, book: Book) -> None:
    """Tell what came of a checkpoint that a person asked for."""
    attempt = _attempt(command)
    if attempt is None:
        return
    taken, step = command.state == CommandState.SUCCEEDED, (command.result.get("data") or {}).get("step")
    told = sentences.save_taken(step) if taken else f"The training did not begin the checkpoint: {_why(command)}."
    home = f"run:{attempt.run.name}"
    book.tell(home, "action" if taken else "note", told, key=f"switch:{command.pk}", data={"attempt": attempt.number})


def _in_vain(command: Command, book: Book) -> None:
    """Tell that ledger and scheduler go on to differ; the reconciliation asks again after a while."""
    for node, why in _left(command).items():
        told = scheduling.asked_in_vain(command.kind, str(node), str(why)[:MAX_TOLD])
        book.tell("fleet", "finding", told, key=f"in vain:{command.pk}:{node}"[:MAX_KEY])


def _left(command: Command) -> Mapping[str, str]:
    """Map each node about which a request came to nothing to the reason."""
    if command.state in FAILED:
        return dict.fromkeys(command.args.get("nodes") or [command.node.name], _why(command))
    left = (command.result.get("data") or {}).get("left")
    return left if isinstance(left, dict) else {}


def _unlaunched(command: Command, now: datetime, book: Book) -> None:
    attempt = _attempt(command)
    if attempt is None or (command.state != CommandState.REFUSED and attempt.state == AttemptState.RUNNING):
        return  # it runs although nobody said so in time; where it could not, its end is reported by itself
    runs.mark_stopping(attempt, now)
    if runs.close_attempt(attempt, "failed", now):
        if command.state != CommandState.REFUSED:
            runs.send_stop(attempt.run, attempt, now)  # it may have been started after all, behind its deadline
        told = f"Attempt {attempt.number} could not be launched: {_why(command)}."
        book.tell(f"run:{attempt.run.name}", "launch", told, key=f"unlaunched:{attempt.run.pk}:{attempt.number}")


def _stopped(command: Command, now: datetime, book: Book) -> None:
    """Take the launcher's proof that no rank is left; of an attempt that it never started it tells nothing else."""
    attempt, proof = _attempt(command), command.result.get("data") or {}
    if attempt is None or proof.get("survivors") or not runs.close_attempt(attempt, "killed", now):
        return
    told = sentences.attempt_ended(attempt.number, "killed", attempt.last_step)
    book.tell(f"run:{attempt.run.name}", "exit", told, key=f"stopped:{attempt.run.pk}:{attempt.number}")


def _attempt(command: Command) -> Attempt | None:
    wanted = {"run__name": command.args.get("run"), "number": command.args.get("attempt")}
    return Attempt.objects.select_related("run").filter(**wanted).first()


def _why(command: Command) -> str:
    if command.state == CommandState.EXPIRED:
        return f"{command.node.name} did not answer"
    tail = str(command.result.get("output_tail") or "").strip()
    return tail[-MAX_TOLD:] or f"{command.node.name} answered {command.state}"
