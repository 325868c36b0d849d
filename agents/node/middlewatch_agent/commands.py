"""Carry out what the control plane asks, once, and only what this node allows.

A lease that ran out, a lost answer or a restarted agent hand the same command
out again. Its id and outcome are remembered in the spool's file, in the same
transaction as the event that reports them, so a command has one outcome.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from middlewatch_wire.commands import COMMANDS
from middlewatch_wire.limits import MAX_STRING
from msgspec import Struct

from middlewatch_agent.context import FINAL_STATES, Command, Handler, Outcome
from middlewatch_agent.kinds import BadEventError

log = logging.getLogger(__name__)

NOTE = "command:"
MAX_ID = 64
MAX_TAIL = 4096
MAX_AT_ONCE = 8
PATIENT = frozenset({"check.run", "support.bundle", "switch.arm"})
"""Kinds that may take long. They have a room of their own, so that nothing that must be ended waits behind them."""
REMEMBER_MS = 7 * 24 * 3600 * 1000
REMEMBER_LAST = 100
"""So many ended commands stay however old they seem: a clock that was set ahead has nothing carried out twice."""
FORGET_EVERY_MS = 3600 * 1000

Tell = Callable[[Mapping[str, Any], Mapping[str, str | None]], None]
Later = Callable[[float, Callable[[], None]], None]


class Remembered(Struct, kw_only=True):
    """What is kept about a command."""

    kind: str
    args: dict[str, Any]
    state: str
    at_ms: int
    lease_s: float = 30.0
    deadline_ms: int | None = None
    exit_code: int | None = None
    output_tail: str = ""
    data: dict[str, Any] = {}


class Commands:
    """Every method may be called from any thread.

    `tell(event, notes)` spools an event together with facts; `later(delay_s, call)`
    calls from the agent's loop; `clock_ms` is this machine's wall clock.
    """

    def __init__(
        self,
        *,
        allowed: frozenset[str],
        tell: Tell,
        later: Later,
        notes: Mapping[str, str],
        clock_ms: Callable[[], int],
    ) -> None:
        """Read back what earlier lives of the agent remembered."""
        self._allowed = allowed
        self._tell = tell
        self._later = later
        self._clock_ms = clock_ms
        self._handlers: dict[str, tuple[Handler, bool]] = {}
        self._lock = threading.RLock()
        self._rooms = {patient: threading.Semaphore(MAX_AT_ONCE) for patient in (True, False)}
        self._forgot_ms = clock_ms()
        self._known = {key.removeprefix(NOTE): _read(value) for key, value in notes.items()}

    def register(self, kind: str, handler: Handler, *, repeatable: bool = False) -> None:
        """Let a handler carry out a kind; without one the kind is refused."""
        self._handlers[kind] = (handler, repeatable)

    def kinds(self) -> frozenset[str]:
        """What this node carries out: what it allows and has a handler for."""
        return self._allowed & self._handlers.keys()

    def resume(self) -> None:
        """Settle what an earlier life of the agent left open, and forget what is old."""
        with self._lock:
            for command_id, record in list(self._known.items()):
                if record.state not in FINAL_STATES:
                    self._resume_one(command_id, record)
            self._forget_old()

    def take(self, command: Command) -> None:
        """Accept, refuse or report again; the work itself is done in a thread."""
        with self._lock:
            if not 0 < len(command.command_id) <= MAX_ID:
                log.warning("A command with an unusable id was ignored")
                return
            known = self._known.get(command.command_id)
            if known is not None:
                if known.state in FINAL_STATES:
                    self._report(command.command_id, known)
                return
            self._accept(command)

    def _accept(self, command: Command) -> None:
        if abs(self._clock_ms() - self._forgot_ms) >= FORGET_EVERY_MS:
            self._forget_old()
        record = Remembered(
            kind=command.kind, args=dict(command.args), state="accepted", at_ms=self._clock_ms(),
            lease_s=command.lease_s, deadline_ms=command.deadline_ms,
        )  # fmt: skip
        self._known[command.command_id] = record
        if reason := self._refusal(command):
            self._settle(command.command_id, Outcome(state="refused", output_tail=reason))
            return
        self._report(command.command_id, record)
        self._start(command)

    def _refusal(self, command: Command) -> str | None:
        if command.kind not in self._allowed:
            return _not_allowed(command.kind, self._allowed)
        if command.kind not in self._handlers:
            return f"nothing on this node carries out {command.kind}"
        if command.deadline_ms is not None and command.deadline_ms <= self._clock_ms():
            return "the deadline had passed when the command arrived"
        return None

    def _resume_one(self, command_id: str, record: Remembered) -> None:
        command = Command(
            command_id=command_id, kind=record.kind, args=record.args, lease_s=record.lease_s,
            deadline_ms=record.deadline_ms,
        )  # fmt: skip
        repeatable = self._handlers.get(record.kind, (None, False))[1]
        if repeatable and self._refusal(command) is None:
            self._start(command)
        else:
            self._settle(command_id, Outcome(state="failed", output_tail="cut short by the end of the agent"))

    def _start(self, command: Command) -> None:
        if command.deadline_ms is not None:
            left_s = max(0.0, (command.deadline_ms - self._clock_ms()) / 1000.0)
            late = Outcome(state="failed", output_tail="not finished before the deadline")
            self._later(left_s, lambda: self._settle(command.command_id, late))
        name = f"command-{command.kind}"
        threading.Thread(target=self._work, args=(command,), name=name, daemon=True).start()

    def _work(self, command: Command) -> None:
        with self._rooms[command.kind in PATIENT]:
            with self._lock:
                record = self._known[command.command_id]
                if record.state in FINAL_STATES:
                    return
                record.state = "running"
                self._report(command.command_id, record)
            self._settle(command.command_id, self._outcome(command))

    def _outcome(self, command: Command) -> Outcome:
        try:
            return self._handlers[command.kind][0](command)
        except Exception as error:
            log.exception("The command %s failed", command.kind)
            return Outcome(state="failed", output_tail=f"{type(error).__name__}: {error}")

    def _settle(self, command_id: str, outcome: Outcome) -> None:
        """Set the one outcome of a command; a later one changes nothing."""
        with self._lock:
            record = self._known[command_id]
            if record.state in FINAL_STATES:
                return
            record.state = outcome.state if outcome.state in FINAL_STATES else "failed"
            record.exit_code = outcome.exit_code
            record.output_tail = outcome.output_tail[-MAX_TAIL:]
            record.data = dict(outcome.data)
            record.at_ms = self._clock_ms()
            try:
                self._report(command_id, record)
            except BadEventError as error:
                record.state, record.data = "failed", {}
                record.output_tail = f"the result cannot be told: {error}"
                self._report(command_id, record)

    def _report(self, command_id: str, record: Remembered) -> None:
        data: dict[str, Any] = {"command_id": command_id, "state": record.state}
        if record.state in FINAL_STATES:
            data |= {"output_tail": record.output_tail[:MAX_STRING], "data": record.data}
            if record.exit_code is not None:
                data["exit_code"] = record.exit_code
        event: dict[str, Any] = {"kind": "command.result", "data": data}
        event |= {
            key: record.args[key] for key, kind in (("run", str), ("attempt", int)) if _is(record.args, key, kind)
        }
        self._tell(event, {NOTE + command_id: msgspec.json.encode(record).decode()})

    def _forget_old(self) -> None:
        """An agent may live for a year, and each outcome is kept on disk and in memory."""
        self._forgot_ms = self._clock_ms()
        ended = [(one.at_ms, command_id) for command_id, one in self._known.items() if one.state in FINAL_STATES]
        for at_ms, command_id in sorted(ended)[:-REMEMBER_LAST]:
            if at_ms < self._forgot_ms - REMEMBER_MS:
                self._forget(command_id)

    def _forget(self, command_id: str) -> None:
        del self._known[command_id]
        self._tell({}, {NOTE + command_id: None})


def _not_allowed(kind: str, allowed: frozenset[str]) -> str:
    """Name the line that would allow it: only who owns the node can write it."""
    if kind not in COMMANDS:
        return f"{kind[:MAX_ID]} is not on this node's list of allowed commands"
    line = f"commands = {msgspec.json.encode(sorted({*allowed, kind})).decode()}"
    return f"{kind} is not on this node's list of allowed commands; in its agent.toml this would allow it: {line}"


def _is(args: Mapping[str, Any], key: str, kind: type) -> bool:
    value = args.get(key)
    return isinstance(value, kind) and not isinstance(value, bool)


def _read(value: str) -> Remembered:
    try:
        return msgspec.json.decode(value, type=Remembered)
    except (msgspec.MsgspecError, RecursionError):
        now_ms = time.time_ns() // 1_000_000
        return Remembered(kind="", args={}, state="failed", at_ms=now_ms, output_tail="its record was unreadable")
