"""The tries of each step, with the commands that they left and what agents said of them."""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from controlplane.fleet.models import Command
from controlplane.runbooks.models import Execution, StepRun
from controlplane.web.present import badges, words

MAX_PAYLOAD = 4000
MAX_COMMANDS = 200
SHOWN_COMMANDS = 16
MAX_TAIL_LINES = 40
MAX_TAIL = 4000


def of_steps(execution: Execution, tries: Sequence[StepRun], steps: int, now: datetime) -> list[list[dict[str, Any]]]:
    """Return the tries of each step, in the order of the steps."""
    sent = _commands(execution)
    shown: list[list[dict[str, Any]]] = [[] for _ in range(steps)]
    for one in tries:
        if one.index < steps:
            shown[one.index].append(_try(execution, one, sent, now))
    return shown


def _commands(execution: Execution) -> list[Command]:
    sent = Command.objects.filter(execution_id=execution.pk).select_related("node")
    return list(sent.order_by("created_at", "node__name", "idempotency_key")[:MAX_COMMANDS])


def _try(execution: Execution, one: StepRun, sent: Sequence[Command], now: datetime) -> dict[str, Any]:
    key = f"{execution.pk}:{one.name}:{one.try_number}"
    mine = [
        command for command in sent if command.idempotency_key == key or command.idempotency_key.startswith(f"{key}:")
    ]
    return {
        "number": one.try_number,
        "undo": one.undo,
        "badge": badges.of(badges.STEP, one.state),
        "open": one.finished_at is None,
        "sentence": one.sentence,
        "began": one.started_at,
        "took": words.span((one.finished_at or now) - one.started_at),
        "key": key,
        "commands": [_command(command, now) for command in mine[:SHOWN_COMMANDS]],
        "more_commands": max(0, len(mine) - SHOWN_COMMANDS),
        "payload": _payload({"intent": one.intent, "result": one.result}),
    }


def _command(command: Command, now: datetime) -> dict[str, Any]:
    return {
        "node": command.node.name,
        "kind": command.kind,
        "badge": badges.of(badges.COMMAND, command.state),
        "took": words.span((command.finished_at or now) - command.created_at),
        "tail": _tail(str(command.result.get("output_tail") or "")),
    }


def _tail(text: str) -> str:
    return "\n".join(text[-MAX_TAIL:].splitlines()[-MAX_TAIL_LINES:]).strip()


def _payload(facts: dict[str, Any]) -> str:
    known = {name: value for name, value in facts.items() if value}
    return json.dumps(known, indent=1, ensure_ascii=False, default=str)[:MAX_PAYLOAD] if known else ""
