"""Run the checks that this node's own configuration names.

The control plane knows a check by its name alone; which program that is, and how
long it may take, stands in `[[checks]]` of agent.toml. A check that could not run
says nothing about the node, so it is told apart from one that failed.
"""

import time
from collections.abc import Iterable
from typing import Any

import msgspec
from middlewatch_wire.commands import CheckArgs

from middlewatch_agent import programs
from middlewatch_agent.config import Check
from middlewatch_agent.context import AgentContext, Command, Outcome

TAIL_BYTES = 4096
OUTCOMES = {0: "pass", 1: "fail"}
COULD_NOT = "could_not_check"
MAX_MEASURED = 64
MAX_WORD = 200


def attach(context: AgentContext) -> None:
    """Let the agent carry out `check.run`."""
    context.register_command("check.run", Checker(context))
    for check in context.config.checks:
        context.declare(f"check:{check.name}")


class Checker:
    """The handler of `check.run`."""

    def __init__(self, context: AgentContext) -> None:
        """Report through `context`."""
        self._context = context

    def __call__(self, command: Command, /) -> Outcome:
        """Run one check; the command succeeds when the check could be run, whatever it found."""
        try:
            args = msgspec.convert(dict(command.args), CheckArgs)
        except msgspec.ValidationError as error:
            return Outcome(state="refused", output_tail=str(error))
        check = _named(self._context.config.checks, args.check)
        if check is None:
            return Outcome(state="refused", output_tail=_unknown(args.check, self._context.config.checks))
        return self._run(check, min(check.timeout_s, args.budget_s), command.command_id)

    def _run(self, check: Check, within_s: float, command_id: str) -> Outcome:
        began, ran = time.monotonic(), _ran(check, within_s)
        outcome = COULD_NOT if ran.exit_code is None else OUTCOMES.get(ran.exit_code, COULD_NOT)
        took_ms = round((time.monotonic() - began) * 1000.0, 1)
        told: dict[str, Any] = {
            "check": check.name,
            "outcome": outcome,
            "measured": {**_measured(ran.tail), "duration_ms": took_ms},
        }
        if ran.exit_code is not None:
            told["code"] = ran.exit_code
        event = {"kind": "check.result", "data": told}
        self._context.emit_once(f"check:{command_id}", event, urgent=True)
        return Outcome(exit_code=ran.exit_code, output_tail=ran.tail, data={"outcome": outcome, "duration_ms": took_ms})


def _ran(check: Check, within_s: float) -> programs.Ran:
    try:
        ran = programs.run(check.command, within_s=within_s, tail_bytes=TAIL_BYTES)
    except OSError as error:
        return programs.Ran(exit_code=None, tail=f"{check.command[0]}: {error.strerror}")
    if ran.exit_code is not None:
        return ran
    return programs.Ran(exit_code=None, tail=f"{ran.tail.rstrip()}\nnot finished within {within_s:g} s".strip())


def _measured(tail: str) -> dict[str, float | str | bool]:
    """What a check measured, where its last line is a JSON object; only plain values count."""
    try:
        found = msgspec.json.decode(tail.rstrip().rpartition("\n")[2], type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError):
        return {}
    plain = {name[:MAX_WORD]: value for name, value in found.items() if isinstance(value, (int, float, bool, str))}
    kept = list(plain.items())[:MAX_MEASURED]
    return {name: value[:MAX_WORD] if isinstance(value, str) else value for name, value in kept}


def _named(checks: Iterable[Check], name: str) -> Check | None:
    return next((check for check in checks if check.name == name), None)


def _unknown(name: str, checks: Iterable[Check]) -> str:
    known = ", ".join(check.name for check in checks) or "none"
    return f"check: agent.toml of this node names no check {name!r}; it knows {known}"
