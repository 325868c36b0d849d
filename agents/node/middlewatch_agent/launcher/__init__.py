"""The launcher: an agent on the head node that starts, stops and reports attempts.

`attach(context)` is all that the agent calls. The work is done by a scheduler
adapter behind `base.Launcher`.
"""

import logging
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from middlewatch_wire.commands import AttemptStartArgs, AttemptStopArgs, CheckpointsScanArgs

from middlewatch_agent.context import AgentContext, Command, Outcome
from middlewatch_agent.launcher import config as launcher_config
from middlewatch_agent.launcher.base import Launcher, RefusedError, StartError, StartRequest
from middlewatch_agent.launcher.local import LocalLauncher

log = logging.getLogger(__name__)

POLL_S = 0.1
IDLE_S = 60.0

T = TypeVar("T")


def attach(context: AgentContext) -> None:
    """Make the agent a launcher, as its `launcher.toml` says. Raises launcher.config.ConfigError."""
    settings = launcher_config.load(Path(str(context.config.launcher)))
    launcher = LocalLauncher(settings, context.state_dir / "launcher")
    service = Service(context, launcher)
    launcher.take_up(now_ms=_now_ms())
    context.register_command("attempt.start", service.start, repeatable=True)
    context.register_command("attempt.stop", service.stop, repeatable=True)
    context.register_command("checkpoints.scan", service.scan, repeatable=True)
    context.declare("launcher")
    threading.Thread(target=service.watch, name="launcher", daemon=True).start()


class Service:
    """Turns commands into calls of the adapter, and what it reports into events."""

    def __init__(self, context: AgentContext, launcher: Launcher) -> None:
        """Report through `context`."""
        self._context = context
        self._launcher = launcher
        self._wake = threading.Event()
        self._telling = threading.Lock()

    def start(self, command: Command) -> Outcome:
        """Handle `attempt.start`."""
        try:
            args = _parsed(AttemptStartArgs, command.args)
            skip = (args.resume.skip[0], args.resume.skip[1]) if args.resume.skip else None
            request = StartRequest(
                run=args.run, attempt=args.attempt, nodes=tuple(args.nodes), resume_step=args.resume.step, skip=skip
            )
            started = self._launcher.start(request, now_ms=_now_ms())
        except RefusedError as error:
            return Outcome(state="refused", output_tail=str(error))
        except StartError as error:
            return Outcome(state="failed", output_tail=str(error))
        finally:
            self._wake.set()
        self.tell()
        return Outcome(data={"job_id": started.job_id, "world_size": started.world_size})

    def stop(self, command: Command) -> Outcome:
        """Handle `attempt.stop`: it succeeded when no process of the attempt is left."""
        try:
            args = _parsed(AttemptStopArgs, command.args)
            grace_s = args.grace_s if "grace_s" in command.args else None
            stopped = self._launcher.stop(args.run, args.attempt, grace_s=grace_s)
        except RefusedError as error:
            return Outcome(state="refused", output_tail=str(error))
        finally:
            self._wake.set()
        survivors = list(stopped.survivors)
        if survivors:
            return Outcome(state="failed", data={"stopped": False, "survivors": survivors})
        self.tell()
        return Outcome(data={"stopped": True, "survivors": []})

    def scan(self, command: Command) -> Outcome:
        """Handle `checkpoints.scan`."""
        try:
            args = _parsed(CheckpointsScanArgs, command.args)
            found = self._launcher.scan(args.run, args.newest)
        except RefusedError as error:
            return Outcome(state="refused", output_tail=str(error))
        except StartError as error:
            return Outcome(state="failed", output_tail=str(error))
        return Outcome(data={"checkpoints": list(found)})

    def tell(self) -> None:
        """Emit what is due now."""
        with self._telling:
            for report in self._launcher.poll(now_ms=_now_ms()):
                event = {"kind": report.kind, "run": report.run, "attempt": report.attempt, "data": dict(report.data)}
                self._context.emit_once(report.key, event, urgent=True)
                self._launcher.told(report)

    def watch(self) -> None:
        """Report ends as they happen, for as long as the agent lives."""
        while True:
            self._wake.wait(POLL_S if self._launcher.live() else IDLE_S)
            self._wake.clear()
            try:
                self.tell()
            except Exception:
                log.exception("the launcher could not report; it tries again")


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _parsed(kind: type[T], args: Mapping[str, Any]) -> T:
    try:
        return msgspec.convert(dict(args), kind)
    except msgspec.ValidationError as error:
        raise RefusedError(str(error)) from error
