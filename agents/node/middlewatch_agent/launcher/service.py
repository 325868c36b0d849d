"""Turn commands into calls of a scheduler adapter, and what the adapter reports into events.

The work is done by the adapter, behind `base.Launcher`.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from middlewatch_wire.commands import (
    AttemptStartArgs,
    AttemptStopArgs,
    CheckpointsScanArgs,
    NodesDrainArgs,
    NodesResumeArgs,
    QueueArgs,
    RunArgs,
)

from middlewatch_agent.context import AgentContext, Command, Outcome
from middlewatch_agent.launcher import config as launcher_config
from middlewatch_agent.launcher.base import Launcher, Notice, Queue, RefusedError, StartError, StartRequest
from middlewatch_agent.launcher.config import LauncherConfig
from middlewatch_agent.launcher.local import LocalLauncher
from middlewatch_agent.launcher.slurm.launcher import SlurmLauncher

log = logging.getLogger(__name__)

POLL_S = 0.1
IDLE_S = 60.0

T = TypeVar("T")


def attach(context: AgentContext) -> None:
    """Make the agent a launcher, as its `launcher.toml` says. Raises launcher.config.ConfigError."""
    settings = launcher_config.load(Path(str(context.config.launcher)))
    launcher = adapter(settings, context.state_dir / "launcher")
    service = Service(context, launcher)
    launcher.take_up(now_ms=_now_ms())
    context.register_command("attempt.start", service.start, repeatable=True)
    context.register_command("attempt.stop", service.stop, repeatable=True)
    context.register_command("checkpoints.scan", service.scan, repeatable=True)
    if isinstance(launcher, Queue):
        service.offer_queue(launcher)
    context.add_reader("scheduler", launcher.reader)
    context.declare("launcher")
    threading.Thread(target=service.watch, name="launcher", daemon=True).start()


def adapter(settings: LauncherConfig, folder: Path) -> Launcher:
    """The adapter that launcher.toml names, with its files in `folder`."""
    return (
        SlurmLauncher(settings, folder)
        if settings.scheduler == SlurmLauncher.scheduler
        else LocalLauncher(settings, folder)
    )


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
                run=args.run, attempt=args.attempt, nodes=tuple(args.nodes), resume_step=args.resume.step, skip=skip,
                exclude=tuple(args.exclude),
            )  # fmt: skip
            started = self._launcher.start(request, now_ms=_now_ms())
        except RefusedError as error:
            return Outcome(state="refused", output_tail=str(error))
        except StartError as error:
            return Outcome(state="failed", output_tail=str(error))
        finally:
            self._wake.set()
        self.tell()
        elsewhere = {"nodes": list(started.nodes)} if started.nodes else {}
        return Outcome(data={"job_id": started.job_id, "world_size": started.world_size, **elsewhere})

    def stop(self, command: Command) -> Outcome:
        """Handle `attempt.stop`: it succeeded when no process of the attempt is left."""
        try:
            args = _parsed(AttemptStopArgs, command.args)
            grace_s = args.grace_s if "grace_s" in command.args else None
            stopped = self._launcher.stop(args.run, args.attempt, grace_s=grace_s)
        except RefusedError as error:
            return Outcome(state="refused", output_tail=str(error))
        except StartError as error:
            return Outcome(state="failed", output_tail=str(error))
        finally:
            self._wake.set()
        survivors, fenced = list(stopped.survivors), {"fenced": list(stopped.fenced)} if stopped.fenced else {}
        if survivors:
            return Outcome(state="failed", data={"stopped": False, "survivors": survivors, **fenced})
        self.tell()
        return Outcome(data={"stopped": True, "survivors": [], **fenced})

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

    def offer_queue(self, queue: Queue) -> None:
        """Carry out commands about jobs that wait and about nodes of the scheduler."""

        def offer(kind: str, args: type[T], call: Callable[[T], Mapping[str, Any]]) -> None:
            self._context.register_command(kind, partial(_answer, args, call), repeatable=True)

        offer("job.hold", RunArgs, lambda args: queue.hold(args.run))
        offer("job.release", RunArgs, lambda args: queue.release(args.run))
        offer("job.queue", QueueArgs, lambda args: queue.keep(args.run, args.count, args.exclude))
        offer("nodes.drain", NodesDrainArgs, lambda args: queue.drain(args.nodes, args.reason))
        offer("nodes.resume", NodesResumeArgs, lambda args: queue.resume(args.nodes))

    def tell(self) -> None:
        """Emit what is due now."""
        with self._telling:
            for report in self._launcher.poll(now_ms=_now_ms()):
                event = {"kind": report.kind, "run": report.run, "attempt": report.attempt, "data": dict(report.data)}
                if isinstance(report, Notice):
                    self._context.emit(event)
                    continue
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


def _answer(kind: type[T], call: Callable[[T], Mapping[str, Any]], command: Command) -> Outcome:
    try:
        return Outcome(data=call(_parsed(kind, command.args)))
    except RefusedError as error:
        return Outcome(state="refused", output_tail=str(error))
    except StartError as error:
        return Outcome(state="failed", output_tail=str(error))


def _parsed(kind: type[T], args: Mapping[str, Any]) -> T:
    try:
        return msgspec.convert(dict(args), kind)
    except msgspec.ValidationError as error:
        raise RefusedError(str(error)) from error
