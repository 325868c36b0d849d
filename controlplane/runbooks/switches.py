"""The kill switch: stop automation for a run or for all, and let it act again.

Off means that no act begins: whoever is writing one finishes within milliseconds and
everybody after that finds the switch off. Commands that no agent has taken up are called
back, executions stand still, and training itself is not touched. On again, a person says
what becomes of the trouble that was found meanwhile. The breaker, which opens by itself,
is reset with the same question.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from django.db import transaction

from controlplane.domain.chronicle.sentences import full_stop
from controlplane.domain.errors import Conflict, Invalid
from controlplane.live import actions as live
from controlplane.runbooks import backlog as found
from controlplane.runbooks.models import Execution
from controlplane.runbooks.queries import WORKING
from controlplane.runs import automation
from controlplane.runs.automation import FLEET
from controlplane.runs.book import Book
from controlplane.runs.calling_back import call_back
from controlplane.runs.models import Automation, Run
from controlplane.runs.queueing import settle_queues

MAX_WHY = 2_000


class Backlog(StrEnum):
    """What becomes of the trouble that was found while automation might not act."""

    PROCESS = "process"
    SKIP = "skip"


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """Whether automation may act on a run, or at all. `everywhere` says that the fleet's switch is the one that is off.

    `words` tell it in one sentence; `open` is the breaker, `opened_why` its reason.
    """

    off: bool
    by: str = ""
    why: str = ""
    since: datetime | None = None
    everywhere: bool = False
    open: bool = False
    opened_why: str = ""
    opened_at: datetime | None = None
    opened_everywhere: bool = False
    words: str = ""


def state(run: Run | None) -> State:
    """Return how the kill switch and the breaker of a run, or of the fleet, stand."""
    found = automation.standing(run)
    off, opened = found.off, found.opened
    return State(
        off=off is not None, by=off.off_by if off else "", why=off.off_why if off else "",
        since=off.off_at if off else None, everywhere=off is not None and off.name == FLEET,
        open=opened is not None, opened_why=opened.opened_why if opened else "",
        opened_at=opened.opened_at if opened else None, opened_everywhere=opened is not None and opened.name == FLEET,
        words=full_stop(found.why_off or found.why_opened or "automation may act"),
    )  # fmt: skip


def off(run: Run | None, by: str, why: str, now: datetime) -> None:
    """Stop automation for a run, or for all: from the commit on no act begins.

    Raises:
        Conflict: it is off already.
        Invalid: the reason is too long.
    """
    if len(why) > MAX_WHY:
        raise Invalid("why", f"must be at most {MAX_WHY} characters")
    with transaction.atomic():
        if not automation.turn_off(run, by, why.strip(), now):
            raise Conflict(f"automation is off already for {_about(run)}")
        settle_queues(run, now)
        call_back(run, now)
        _tell(
            run,
            "hold",
            f"{by} switched automation off for {_about(run)}" + (f": {why.strip()}" if why else ""),
            now,
            by,
        )
    _look_again(run, now)


def on(run: Run | None, by: str, now: datetime, backlog: str = Backlog.PROCESS) -> None:
    """Let automation act again and say what becomes of what was found meanwhile: `process` or `skip`.

    Raises:
        Conflict: it is on already.
        Invalid: the backlog is neither of the two.
    """
    wanted = _backlog(backlog)
    _give_back(
        run, by, now, wanted, since=lambda row: row.off_at, turn=automation.turn_on, what="switched automation on"
    )


def reset(run: Run | None, by: str, now: datetime, backlog: str = Backlog.PROCESS) -> None:
    """Close the breaker of a run, or of the fleet; what happened before counts no more. Raises as `on`."""
    wanted = _backlog(backlog)
    _give_back(
        run, by, now, wanted, since=lambda row: row.opened_at, turn=automation.close_breaker, what="reset the breaker"
    )  # fmt: skip


def _backlog(name: str) -> Backlog:
    if name not in set(Backlog):
        raise Invalid("backlog", f"must be one of {', '.join(Backlog)}")
    return Backlog(name)


def _give_back(
    run: Run | None,
    by: str,
    now: datetime,
    wanted: Backlog,
    *,
    since: Callable[[Automation], datetime | None],
    turn: Callable[..., bool],
    what: str,
) -> None:
    """Skip first, while nothing can act yet; then let automation act."""
    with transaction.atomic():
        row = Automation.objects.filter(name=automation.name_of(run)).first()
        began = since(row) if row else None
        skipped = found.skip(run, began, by, now) if began and wanted is Backlog.SKIP else 0
        if began is None or not turn(run, now, process=wanted is Backlog.PROCESS):
            raise Conflict(f"there is nothing to give back for {_about(run)}")
        settle_queues(run, now)
        _tell(run, "resume", f"{by} {what} for {_about(run)}; {_fate(wanted, skipped)}", now, by)
    found.process(now)
    _look_again(run, now)


def _fate(wanted: Backlog, skipped: int) -> str:
    if wanted is Backlog.PROCESS:
        return "what was found meanwhile is answered now"
    return f"what was found meanwhile is left alone ({skipped} {'incident' if skipped == 1 else 'incidents'})"


def _about(run: Run | None) -> str:
    return f"run {run.name}" if run is not None else "all runs"


def _look_again(run: Run | None, now: datetime) -> None:
    """Have every execution looked at by the next tick, so that what holds it is shown at once."""
    going = Execution.objects.filter(state__in=WORKING)
    (going.filter(run=run) if run is not None else going).update(wake_at=now)


def _tell(run: Run | None, kind: str, told: str, now: datetime, by: str) -> None:
    home = f"run:{run.name}" if run is not None else "fleet"
    book = Book(now, "person", by)
    book.tell(home, kind, full_stop(told))
    book.write()
    live.touch(home)
    live.touch("fleet", urgent=False)
