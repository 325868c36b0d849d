"""Arm and disarm the switches that training loops look for (R-09, H-01, H-02).

Arming is a wait: the command runs until the ranks of this node have taken the
switch, and whatever ends the wait takes the file away. So a switch lives no longer
than the command that asked for it, and the control plane learns from the command
alone whether anybody obeyed.
"""

import json
import os
import threading
import time
from contextlib import suppress
from pathlib import Path

import msgspec
from middlewatch_wire.commands import SwitchArgs

from middlewatch_agent.collect import live_ranks
from middlewatch_agent.context import AgentContext, Command, Outcome
from middlewatch_agent.files import private_folder
from middlewatch_agent.hooks.switches import ACKNOWLEDGED, FOLDER, file_of
from middlewatch_agent.launcher.config import NAME

LOOK_S = 0.05
LIVE_LOOK_S = 0.5
SETTLE_S = 1.0
"""How long the other ranks of a node may take after the first has acknowledged."""
LONGEST_S = 600.0
MARGIN_S = 2.0
"""A switch loses its force so long before its command does: what is taken can still be acknowledged."""
TOLD_S = 0.1
MAX_ACKNOWLEDGEMENT_BYTES = 256


def attach(context: AgentContext) -> None:
    """Let the agent carry out `switch.arm` and `switch.disarm`."""
    board = Switchboard(context)
    context.register_command("switch.arm", board.arm, repeatable=True)
    context.register_command("switch.disarm", board.disarm, repeatable=True)
    context.declare("switches")


class Switchboard:
    """The switches of one node: files in `switches/`, each with its command's id inside."""

    def __init__(self, context: AgentContext) -> None:
        """Take away what has lost its force while no agent lived."""
        self._context = context
        self._folder = private_folder(context.state_dir / FOLDER)
        self._lock = threading.Lock()
        for path in self._folder.iterdir():
            if path.stat().st_mtime <= time.time():
                path.unlink(missing_ok=True)

    def arm(self, command: Command, /) -> Outcome:
        """Handle `switch.arm`: lay the switch down and wait for the ranks of this node."""
        try:
            args = _parsed(command)
        except ValueError as error:
            return Outcome(state="refused", output_tail=str(error))
        if not self._living(args):
            return _failed(f"no rank of attempt {args.attempt} of run {args.run} lives on {self._context.node}")
        path, left_s = self._path(args), _left_s(command)
        with self._lock:
            if not _lay(path, command.command_id, left_s):
                return Outcome(state="refused", output_tail=f"{args.what}: armed already by another command")
        try:
            return self._wait(path, args, time.monotonic() + left_s - TOLD_S)
        finally:
            _take_away(path)

    def disarm(self, command: Command, /) -> Outcome:
        """Handle `switch.disarm`: the switch is gone afterwards, whether or not it was there."""
        try:
            path = self._path(_parsed(command))
        except ValueError as error:
            return Outcome(state="refused", output_tail=str(error))
        was = path.exists()
        path.unlink(missing_ok=True)
        return Outcome(data={"disarmed": was})

    def _wait(self, path: Path, args: SwitchArgs, until: float) -> Outcome:
        first_at, live, look_live_at = 0.0, self._living(args), time.monotonic() + LIVE_LOOK_S
        while True:
            told, now = _acknowledgements(path), time.monotonic()
            first_at = first_at or (now if told else 0.0)
            if told and (live <= told.keys() or now >= first_at + SETTLE_S):
                return Outcome(data={"acknowledged": sorted(told), "step": max(told.values())})
            if now >= look_live_at:
                live, look_live_at = self._living(args), now + LIVE_LOOK_S
            if why := _over(path, live, told, late=now >= until):
                return _failed(why)
            time.sleep(LOOK_S)

    def _living(self, args: SwitchArgs) -> set[int]:
        return {rank.rank for rank in live_ranks(self._context.state_dir / "ranks", args.run, args.attempt)}

    def _path(self, args: SwitchArgs) -> Path:
        return file_of(self._context.state_dir, args.run, args.attempt, args.what)


def _parsed(command: Command) -> SwitchArgs:
    args = msgspec.convert(dict(command.args), SwitchArgs)
    if not NAME.fullmatch(args.run):
        raise ValueError("run: this is no name of a run")
    return args


def _left_s(command: Command) -> float:
    if command.deadline_ms is None:
        return LONGEST_S
    return max(0.0, min(LONGEST_S, command.deadline_ms / 1000.0 - time.time()))


def _lay(path: Path, command_id: str, left_s: float) -> bool:
    """Lay a switch down, once for a command; False where that of another command still has force."""
    with suppress(OSError):
        if path.read_text() == command_id:
            return True
        if path.stat().st_mtime > time.time():
            return False
    _take_away(path)
    scratch = path.with_name(f".{path.name}")
    scratch.write_text(command_id)
    ends_at = time.time() + left_s - min(MARGIN_S, left_s / 2)
    os.utime(scratch, (ends_at, ends_at))
    scratch.replace(path)
    return True


def _take_away(path: Path) -> None:
    path.unlink(missing_ok=True)
    for told in path.parent.glob(f"{path.name}{ACKNOWLEDGED}*"):
        told.unlink(missing_ok=True)


def _acknowledgements(path: Path) -> dict[int, int]:
    """The ranks that have taken the switch, and after which step."""
    found: dict[int, int] = {}
    for told in path.parent.glob(f"{path.name}{ACKNOWLEDGED}*"):
        with suppress(OSError, ValueError, TypeError, LookupError):
            with told.open("rb") as file:
                step = int(json.loads(file.read(MAX_ACKNOWLEDGEMENT_BYTES))["step"])
            found[int(told.name.rpartition(".")[2])] = step
    return found


def _over(path: Path, live: set[int], told: dict[int, int], *, late: bool) -> str:
    """Say why nobody will take the switch any more, or nothing."""
    if told:
        return ""
    if not path.exists():
        return "disarmed before any rank took it"
    if not live:
        return "the ranks ended before any of them took it"
    return "no rank took it before the deadline; it is disarmed" if late else ""


def _failed(why: str) -> Outcome:
    return Outcome(state="failed", output_tail=why)
