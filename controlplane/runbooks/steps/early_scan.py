"""Let the launcher look at the checkpoints while a crashed job is still ending.

A crashed attempt saves no more, so what lies on the disk can be judged a second or two
before it is needed. What was looked at before anything newer became complete is not
used.
"""

from datetime import timedelta

from controlplane.checkpoints import queries as ledger
from controlplane.fleet.models import Command
from controlplane.runbooks.steps.base import answer, finished, succeeded
from controlplane.runbooks.turn import Turn

NEWEST = 5
WITHIN_S = 30.0
FRESH = timedelta(seconds=10)
"""An older look says too little about the disk as it is now."""
MARK = "early"


def ask(turn: Turn, mark: str = "") -> Command:
    """Ask the launcher what lies on the disk."""
    args = {"run": turn.run.name, "newest": NEWEST}
    return turn.command(turn.run.launcher, "checkpoints.scan", args, within_s=WITHIN_S, mark=mark)


def usable(turn: Turn) -> Command | None:
    """Return the early look of this execution, also while it is under way, or None where it tells nothing."""
    sent = Command.objects.filter(
        execution_id=turn.execution.pk, kind="checkpoints.scan", idempotency_key__endswith=f":{MARK}"
    )
    command = sent.order_by("-created_at").select_related("node").first()
    if command is None or turn.now - command.created_at > FRESH:
        return None
    if finished(command) and not (succeeded(command) and _newest(command) >= _known(turn)):
        return None
    return command


def _known(turn: Turn) -> int:
    complete = ledger.newest_complete(turn.run)
    return complete.step if complete else 0


def _newest(command: Command) -> int:
    found = answer(command).get("checkpoints")
    steps = [item.get("step") for item in found if isinstance(item, dict)] if isinstance(found, list) else []
    return max((step for step in steps if isinstance(step, int)), default=0)
