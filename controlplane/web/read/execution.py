"""Everything that the page of one runbook execution shows."""

import json
from datetime import datetime
from typing import Any

from controlplane.domain.errors import NotFound
from controlplane.domain.recovery.runbook import Runbook
from controlplane.runbooks import registry
from controlplane.runbooks.models import Execution, ExecutionState, StepRun
from controlplane.web.present import badges, buttons, words
from controlplane.web.present.buttons import Button, May
from controlplane.web.present.execution import FINAL, progress

MAX_PAYLOAD = 4000


def load(execution_id: int) -> Execution:
    """Return the execution with its incident and run, or raise `NotFound`."""
    found = Execution.objects.select_related("incident", "run").filter(pk=execution_id).first()
    if found is None:
        raise NotFound(f"there is no execution {execution_id}")
    return found


def state(execution: Execution, may: May, now: datetime) -> dict[str, Any]:
    """Read the page: how it stands, what may be done, and every try of every step."""
    runbook, tries = registry.of(execution), list(execution.steps.all())
    going = progress(execution, tries, runbook, now)
    return {
        "execution": execution,
        "incident": execution.incident,
        "run": execution.run,
        "runbook": runbook,
        "older": _older(execution, runbook),
        "progress": going,
        "countdown": words.countdown(going.until, now) if going.until else "",
        "took": words.span((execution.finished_at or now) - execution.created_at),
        "steps": [(line, _tries(tries, index, now)) for index, line in enumerate(going.lines)],
        "acts": _acts(execution, may),
        "now": now,
    }


def _older(execution: Execution, runbook: Runbook) -> bool:
    """Whether the file says something else by now."""
    current = registry.catalog().runbooks.get(execution.runbook)
    return current is None or current.digest != runbook.digest


def _acts(execution: Execution, may: May) -> list[Button]:
    if execution.state in FINAL:
        return []
    proposed = execution.state == ExecutionState.PROPOSED
    first = buttons.approval(execution, may) if proposed else [buttons.pause(execution, may)]
    return [*first, buttons.stop_runbook(execution, may)]


def _tries(tries: list[StepRun], index: int, now: datetime) -> list[dict[str, Any]]:
    return [_try(one, now) for one in tries if one.index == index]


def _try(one: StepRun, now: datetime) -> dict[str, Any]:
    return {
        "number": one.try_number,
        "badge": badges.of(badges.STEP, one.state),
        "sentence": one.sentence,
        "began": one.started_at,
        "took": words.span((one.finished_at or now) - one.started_at),
        "payload": _payload({"intent": one.intent, "result": one.result}),
    }


def _payload(facts: dict[str, Any]) -> str:
    known = {name: value for name, value in facts.items() if value}
    return json.dumps(known, indent=1, ensure_ascii=False, default=str)[:MAX_PAYLOAD] if known else ""
