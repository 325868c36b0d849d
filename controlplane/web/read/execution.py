"""Everything that the page of one runbook execution shows."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from controlplane.domain.errors import NotFound
from controlplane.domain.recovery.execution import FINAL, UNDOABLE
from controlplane.domain.recovery.runbook import Runbook
from controlplane.runbooks import registry, wide_undo
from controlplane.runbooks.models import Definition, Execution, ExecutionState, StepRun
from controlplane.web.present import buttons, words
from controlplane.web.present import runbook as words_of
from controlplane.web.present.buttons import Button, May
from controlplane.web.present.execution import progress
from controlplane.web.read import approval, tries


def load(execution_id: int) -> Execution:
    """Return the execution with its incident and run, or raise `NotFound`."""
    found = Execution.objects.select_related("incident", "run").filter(pk=execution_id).first()
    if found is None:
        raise NotFound(f"there is no execution {execution_id}")
    return found


def state(execution: Execution, may: May, now: datetime, *, viewer: str = "") -> dict[str, Any]:
    """Read the page: how it stands, what may be done, and every try of every step."""
    runbook, rows = registry.readable(execution), list(execution.steps.all())
    going = progress(execution, rows, runbook, now)
    shown = tries.of_steps(execution, rows, len(runbook.steps), now)
    return {
        "execution": execution,
        "incident": execution.incident,
        "run": execution.run,
        "runbook": runbook,
        "progress": going,
        "countdown": words.countdown(going.until, now) if going.until else "",
        "took": words.span((execution.finished_at or now) - execution.created_at),
        "steps": list(zip(going.lines, shown, strict=True)),
        "acts": _acts(execution, may),
        "undo": _undo(execution, runbook, rows, may) | _second(execution, may, now, viewer),
        "now": now,
        **_against_current(execution, runbook),
        **approval.card(execution, may, now, viewer=viewer),
    }


def _against_current(execution: Execution, runbook: Runbook) -> dict[str, Any]:
    """Say whether the file says something else by now, and what."""
    current = registry.catalog().runbooks.get(execution.runbook)
    if current is not None and current.digest == runbook.digest:
        return {"older": False}
    kept = Definition.objects.filter(digest=runbook.digest).first()
    before = kept.documents if kept else {runbook.source: runbook.text}
    after = registry.texts(current) if current else {}
    return {"older": True, "current": current, "diff": words_of.changes(before, after, runbook.source)}


def _acts(execution: Execution, may: May) -> list[Button]:
    if execution.state in FINAL:
        return []
    if execution.state == ExecutionState.PROPOSED:
        return []  # the approval card has its own
    if execution.state == ExecutionState.UNDOING:
        return [replace(buttons.stop_runbook(execution, may), label="Stop now")]
    return buttons.control(execution, may)


def _undo(execution: Execution, runbook: Runbook, rows: Sequence[StepRun], may: May) -> dict[str, Any]:
    """Read what could be taken back, last step first; empty where nothing can."""
    lines = undoable(execution, runbook, rows)
    return {"lines": lines, "button": buttons.undo(execution, may)} if lines else {}


def undoable(execution: Execution, runbook: Runbook, rows: Sequence[StepRun]) -> list[str]:
    """Say what could be taken back, last step first; empty where nothing can."""
    if execution.state not in UNDOABLE:
        return []
    begun = {row.index for row in rows if not row.undo}
    lines = [
        f"{words_of.spoken(spec.name)}: {registry.action(spec.undo).about}"
        for index, spec in enumerate(runbook.steps)
        if index in begun and spec.undo
    ]
    return lines[::-1]


def _second(execution: Execution, may: May, now: datetime, viewer: str) -> dict[str, Any]:
    """Read who wants it taken back and waits for a second person, or that two will be needed."""
    if execution.state not in UNDOABLE:
        return {}
    names, asked = wide_undo.nodes(execution, now), wide_undo.open_of(execution, now)
    if asked is None:
        return {"wide": names} if wide_undo.is_wide(execution, names) else {}
    mine = any(answer["who"] == viewer for answer in asked.answers)
    said = "you asked; a second person has to agree" if mine else ""
    agree = buttons.undo(execution, may, label="Agree to take it back", why_not=said)
    return {"asked": asked, "wide": asked.world["nodes"], "button": agree, "keep": buttons.keep(execution, may)}
