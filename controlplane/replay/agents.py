"""Answer commands as agents would: done, one second later, unless the trace says otherwise or shows the node gone.

What an answer would bring with it, such as stacks or the next attempt, comes from the
trace alone. A scan of checkpoints is answered from the ledger, so that what the trace
reported stands.
"""

from datetime import timedelta
from typing import Any

import msgspec

from controlplane.checkpoints.models import Checkpoint, CheckpointState
from controlplane.fleet.models import Command, CommandState
from controlplane.replay.clock import t_of
from controlplane.replay.expand import Arrival, Feed
from controlplane.replay.trace import Answers, EventLine
from controlplane.runs.models import Run

AFTER_S = 1.0
DOES = {
    "kill": ("attempt.stop",), "restart": ("attempt.start",), "rollback": ("attempt.start",),
    "collect": ("collect",), "check": ("check",), "scan": ("checkpoints.scan",),
}  # fmt: skip
"""The kinds of command behind each act of a trace's `answers`."""
SILENT = "silent"
STATES = ("succeeded", "failed", "refused", SILENT)
_ON_DISK = {
    CheckpointState.COMPLETE: "complete", CheckpointState.VERIFIED: "verified", CheckpointState.PINNED: "verified",
}  # fmt: skip


class Agents:
    """Everybody who takes commands."""

    def __init__(self, feed: Feed) -> None:
        """Answer into `feed`."""
        self._feed = feed
        self._answered: set[str] = set()
        self._states: dict[str, str] = {}

    def learn(self, answers: Answers) -> str:
        """Answer so from now on; say what is wrong with the wish, if anything."""
        if answers.state not in STATES:
            return f"answers.state must be one of {', '.join(STATES)}"
        for kind in DOES.get(answers.do, (answers.do,)):
            self._states[kind] = answers.state
        return ""

    def take_up(self) -> bool:
        """Answer what was sent since the last call; say whether there was anything."""
        waiting = Command.objects.filter(state=CommandState.PENDING).select_related("node")
        new = [one for one in waiting.order_by("created_at", "node__name", "kind") if str(one.pk) not in self._answered]
        for command in new:
            self._answered.add(str(command.pk))
            state = self._states.get(command.kind, "succeeded")
            if state != SILENT and self._feed.answers(command.node.name, t_of(command.created_at) or 0.0):
                self._feed.push(_answer(command, state))
        return bool(new)


def _answer(command: Command, state: str) -> Arrival:
    t = (t_of(command.created_at + timedelta(seconds=AFTER_S))) or 0.0
    data: dict[str, Any] = {"command_id": str(command.pk), "state": state}
    if state == "succeeded":
        data["data"] = _found(command)
    else:
        data["output_tail"] = f"the trace says that {command.kind} {state}"
    event = EventLine(at_ms=round(t * 1000), kind="command.result", data=msgspec.Raw(msgspec.json.encode(data)))
    return Arrival(t, 0, command.node.name, event=event)


def _found(command: Command) -> dict[str, Any]:
    if command.kind == "attempt.stop":
        return {"stopped": True, "survivors": []}
    if command.kind == "attempt.start":
        return {"job_id": f"replay-{command.args.get('attempt')}", "world_size": 0}
    if command.kind == "checkpoints.scan":
        return {"checkpoints": _scan(str(command.args.get("run")), int(command.args.get("newest") or 0))}
    return {}


def _scan(run_name: str, newest: int) -> list[dict[str, Any]]:
    run = Run.objects.filter(name=run_name).first()
    rows = Checkpoint.objects.filter(run=run, tier="persistent").exclude(state=CheckpointState.DELETED)
    return [_on_disk(row) for row in rows.order_by("-step", "path")[:newest]]


def _on_disk(row: Checkpoint) -> dict[str, Any]:
    state = _ON_DISK.get(CheckpointState(row.state), "torn")
    why = "" if state != "torn" else row.why or f"the ledger says {row.state}"
    return {
        "step": row.step, "path": row.path, "state": state, "bytes": row.bytes or 0, "files": row.files or 0,
        "expected_files": row.expected_files or 0, "why": why,
    }  # fmt: skip
