"""Watch an attempt again that we meant to end, once nothing ends it any more.

From the mark of our stop on, whatever the ranks do is no fault, so nobody looks for
faults. A switch that no rank took, or a stop that a person called back, would leave a
training whose next crash nobody finds.
"""

from datetime import datetime

from controlplane.fleet.commands import FINAL
from controlplane.fleet.models import Command, CommandState
from controlplane.live import actions as live
from controlplane.runs.book import Book
from controlplane.runs.models import Attempt, AttemptState, Run, RunState

ENDING = frozenset({"attempt.stop", "ranks.stop", "switch.arm"})
"""Kinds of commands that may end an attempt."""
OVER = (RunState.STOPPED, RunState.COMPLETED)


def ends(command: Command) -> bool:
    """Tell whether a command is to end a whole attempt: a switch may only save, a drill kills single ranks."""
    one = command.kind == "switch.arm" and command.args.get("what") != "kill"
    return command.kind in ENDING and not one and command.args.get("ranks") is None


def watch_again(run: Run, now: datetime, book: Book) -> bool:
    """Take back the mark of our stop where nothing may end the attempt; False when nothing changed.

    Part of the caller's transaction; the run's reducer follows with its next look.
    """
    locked = Run.objects.select_for_update(no_key=True).get(pk=run.pk)
    marked = locked.attempts.exclude(state=AttemptState.EXITED).exclude(stopping_at=None)
    if locked.state in OVER:
        return False
    return bool([one for one in marked if not _may_end(locked, one, now) and _take_back(locked, one, book)])


def _may_end(run: Run, attempt: Attempt, now: datetime) -> bool:
    """Say whether something sent is under way, or was carried out: what has failed or was called back is neither."""
    about = Command.objects.filter(kind__in=ENDING, args__run=run.name, args__attempt=attempt.number)
    return any(ends(command) and _stands(command, now) for command in about)


def _stands(command: Command, now: datetime) -> bool:
    waits = command.state not in FINAL and (command.state != CommandState.PENDING or command.deadline > now)
    return waits or command.state == CommandState.SUCCEEDED


def _take_back(run: Run, attempt: Attempt, book: Book) -> bool:
    mine = Attempt.objects.filter(pk=attempt.pk, stopping_at=attempt.stopping_at).exclude(state=AttemptState.EXITED)
    if not mine.update(stopping_at=None):
        return False
    to = RunState.RUNNING if attempt.state == AttemptState.RUNNING else RunState.WAITING
    Run.objects.filter(pk=run.pk, state=RunState.RECOVERING).update(state=to)
    told = f"Attempt {attempt.number} is watched again: nothing ends it any more."
    book.tell(f"run:{run.name}", "note", told, data={"attempt": attempt.number})
    live.touch(f"run:{run.name}")
    return True
