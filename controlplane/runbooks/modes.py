"""How far each runbook may go on a run, and what autopilot would be allowed to do there.

The run's switch is the upper end. A runbook is held below it by its file, or by a
person for one run or for all; each such change is told with who made it.
"""

from datetime import datetime

from django.db import transaction

from controlplane.domain.errors import Invalid
from controlplane.domain.recovery.actions import Effect
from controlplane.domain.recovery.modes import AUTOPILOT, Allowed, allowed, least
from controlplane.domain.recovery.runbook import MODES, Runbook
from controlplane.live import actions as live
from controlplane.runbooks import budgets, overrides, registry
from controlplane.runbooks.models import RunbookMode
from controlplane.runs.book import Book
from controlplane.runs.models import Run

AS_ITS_FILE = "file"
"""Takes a person's word back: the runbook goes as far as its file says."""


def effective(runbook: Runbook, run: Run) -> str:
    """Return how far a runbook may go on a run: watch, ask or autopilot."""
    return verdict(runbook, run).mode


def verdict(runbook: Runbook, run: Run) -> Allowed:
    """Return the same with the reason."""
    return allowed(run.mode, runbook, overrides.of(run).get(runbook.id, ""))


def set_mode(runbook_id: str, run: Run | None, mode: str, by: str, now: datetime) -> None:
    """Let a runbook go at most as far as `mode` on a run, or on all; `file` takes that word back.

    Raises:
        NotFound: no runbook has that id.
        Invalid: the mode is none of them.
    """
    runbook = registry.runbook(runbook_id)
    if mode not in (*MODES, AS_ITS_FILE):
        raise Invalid("mode", f"must be one of {', '.join((*MODES, AS_ITS_FILE))}")
    with transaction.atomic():
        if _write(runbook, run, mode, by, now):
            _tell(runbook, run, mode, by, now)


def _write(runbook: Runbook, run: Run | None, mode: str, by: str, now: datetime) -> bool:
    """Write the word down; False when it was the same before."""
    rows = RunbookMode.objects.filter(runbook=runbook.id, run=run)
    if mode == AS_ITS_FILE:
        return bool(rows.delete()[0])
    if rows.exclude(mode=mode).update(mode=mode, by=by, at=now):
        return True
    _, new = RunbookMode.objects.get_or_create(
        runbook=runbook.id, run=run, defaults={"mode": mode, "by": by, "at": now}
    )  # fmt: skip
    return new


def _tell(runbook: Runbook, run: Run | None, mode: str, by: str, now: datetime) -> None:
    home, where = (f"run:{run.name}", f"run {run.name}") if run else ("fleet", "all runs")
    to = f"“{runbook.title}” back to its file's mode" if mode == AS_ITS_FILE else f"“{runbook.title}” to {mode}"
    book = Book(now, "person", by)
    book.tell(home, "note", f"{by} set {to} for {where}.", data={"runbook": runbook.id, "mode": mode})
    book.write()
    live.touch(home)


def preview(run: Run, now: datetime) -> list[str]:
    """Say in sentences what automation will be allowed to do on the run once it is on autopilot."""
    said = overrides.of(run)
    ordered = sorted(registry.catalog().runbooks.values(), key=lambda runbook: runbook.code)
    answering = [runbook for runbook in ordered if runbook.answers]
    free = [runbook for runbook in answering if _mode(runbook, said) == AUTOPILOT]
    acts = [f"{runbook.code} {runbook.title}: {_deeds(runbook)}{_limits(runbook)}." for runbook in free]
    held = [
        f"{runbook.code} {runbook.title}: stays on {_mode(runbook, said)}, so a person decides."
        for runbook in answering if runbook not in free
    ]  # fmt: skip
    return [*acts, *held, *(f"{budget.name}: {budget.words}." for budget in budgets.of(run, now))]


def _mode(runbook: Runbook, said: dict[str, str]) -> str:
    return least((runbook.mode, said.get(runbook.id, "")))


def _deeds(runbook: Runbook) -> str:
    """List what it may change, in the words of its actions."""
    acting = [step.action.about.rstrip(".") for step in runbook.steps if step.action.effect is Effect.ACTS]
    return "; ".join(f"{about[:1].lower()}{about[1:]}" for about in acting) or "changes nothing"


def _limits(runbook: Runbook) -> str:
    own = runbook.limits
    told = [
        f"at most {own.uses} times within {own.uses_s / 3600:g} h" if own.uses is not None else "",
        f"at most {own.nodes} nodes each time" if own.nodes is not None else "",
        f"{own.spares} spares stay free" if own.spares is not None else "",
    ]
    listed = ", ".join(part for part in told if part)
    return f" ({listed})" if listed else ""
