"""Ask the training itself for a checkpoint now, or take the asking back (R-09, H-02).

The switch is armed on the node of rank 0, which decides for all ranks when it is
taken. It disarms itself: with its deadline, with the attempt, and once it was used.
"""

from datetime import datetime, timedelta

from django.db import transaction

from controlplane.domain.errors import Conflict, Refused
from controlplane.fleet import actions as fleet
from controlplane.fleet.models import Command
from controlplane.fleet.queries import commands_open
from controlplane.live import actions as live
from controlplane.runs.book import Book
from controlplane.runs.models import Attempt, AttemptState, Run

SAVE_NOW = "save_now"
STOP_NOW = "stop_now"
SAVE = "save"
KILL = "kill"
NEEDS = {SAVE: SAVE_NOW, KILL: STOP_NOW}
"""What a workload must support for each switch."""
ARMED_FOR = timedelta(minutes=5)
"""Longer than most steps: the training looks for a switch after each of them."""


def living(run: Run) -> Attempt | None:
    """Return the attempt that trains, if one does."""
    return run.attempts.filter(state=AttemptState.RUNNING, stopping_at=None).order_by("-number").first()


def why_not(attempt: Attempt | None, what: str = SAVE) -> str:
    """Say why a switch cannot be armed, or nothing."""
    if attempt is None:
        return "no attempt is running"
    if not attempt.nodes:
        return "nobody knows where rank 0 is"
    if NEEDS[what] in attempt.supports:
        return ""
    return f"launcher.toml does not say that the training supports {NEEDS[what]}"


def save_now(run: Run, by: str, now: datetime) -> Command:
    """Ask the ranks of a run for a checkpoint; automation's holds are no hindrance to a person.

    Raises:
        Conflict: a save was asked for already and the ranks have not answered.
        Refused: no attempt is running, or its workload cannot save on demand.
    """
    with transaction.atomic():
        locked = Run.objects.select_for_update(no_key=True).get(pk=run.pk)
        attempt = living(locked)
        why = why_not(attempt)
        if attempt is None or why:
            raise Refused(f"{run.name} cannot save now: {why}")
        return _arm(locked, attempt, by, now)


def _arm(run: Run, attempt: Attempt, by: str, now: datetime) -> Command:
    args = {"run": run.name, "attempt": attempt.number, "what": SAVE}
    if commands_open("switch.arm", args, now):
        raise Conflict(f"{run.name} was asked for a checkpoint already")
    key = f"save:{run.pk}:{attempt.number}:{now.timestamp():.3f}"
    command = fleet.send_command(attempt.nodes[0], "switch.arm", args, key=key, deadline=now + ARMED_FOR, now=now)
    book = Book(now, "person", by)
    book.tell(f"run:{run.name}", "action", f"{by} asked for a checkpoint now.", data={"attempt": attempt.number})
    book.write()
    live.touch(f"run:{run.name}")
    return command
