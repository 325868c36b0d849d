"""The launcher: an agent on the head node that starts, stops and reports attempts.

`attach(context)` is all that the agent calls. The work is done by a scheduler
adapter behind `base.Launcher`.
"""

import logging
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from middlewatch_agent.context import AgentContext, Command, Outcome
from middlewatch_agent.launcher import config as launcher_config
from middlewatch_agent.launcher.base import Launcher, RefusedError, StartError, StartRequest
from middlewatch_agent.launcher.local import LocalLauncher

log = logging.getLogger(__name__)

POLL_S = 0.1
IDLE_S = 60.0
EXIT_REPORT_S = 2.0
DEFAULT_NEWEST = 10
MAX_NODES = 10_000
MAX_STEP = 10**15
MAX_GRACE_S = launcher_config.MAX_GRACE_S


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
            request = _start_request(command.args)
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
        args = command.args
        try:
            run, attempt = _text(args, "run"), _number(args, "attempt", least=1)
            grace_s = _seconds(args, "grace_s")
            stopped = self._launcher.stop(run, attempt, grace_s=grace_s)
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
            newest = _number(command.args, "newest", least=1) if "newest" in command.args else DEFAULT_NEWEST
            found = self._launcher.scan(_text(command.args, "run"), newest)
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


def _text(args: Mapping[str, Any], name: str) -> str:
    value = args.get(name)
    if not isinstance(value, str) or not launcher_config.NAME.fullmatch(value):
        raise RefusedError(f"{name}: a name is needed")
    return value


def _number(args: Mapping[str, Any], name: str, *, least: int) -> int:
    value = args.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= MAX_STEP:
        raise RefusedError(f"{name}: a whole number of at least {least} is needed")
    return value


def _seconds(args: Mapping[str, Any], name: str) -> float | None:
    value = args.get(name)
    if value is None:
        return None
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= MAX_GRACE_S:
        raise RefusedError(f"{name}: seconds between 0 and {MAX_GRACE_S:.0f} are needed")
    return float(value)


def _start_request(args: Mapping[str, Any]) -> StartRequest:
    nodes = args.get("nodes")
    if not isinstance(nodes, list | tuple) or not 1 <= len(nodes) <= MAX_NODES:
        raise RefusedError("nodes: a list of node names is needed")
    if not all(isinstance(node, str) for node in nodes):
        raise RefusedError("nodes: a list of node names is needed")
    resume = args.get("resume") or {"step": 0}
    if not isinstance(resume, Mapping):
        raise RefusedError("resume: an object with a step is needed")
    return StartRequest(
        run=_text(args, "run"),
        attempt=_number(args, "attempt", least=1),
        nodes=tuple(nodes),
        resume_step=_number(resume, "step", least=0),
    )
