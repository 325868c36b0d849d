"""A stand-in agent and a launcher over a few nodes, for the tests of this folder and its neighbours."""

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from middlewatch_agent.config import AgentConfig
from middlewatch_agent.context import Command, Outcome
from middlewatch_agent.launcher import config as launcher_config
from middlewatch_agent.launcher import plan, processes
from middlewatch_agent.launcher.service import Service, adapter

from tests.patience import within

SLEEP = "import time; time.sleep(60)"


def wait_for(look: Callable[[], object], seconds: float = 20.0) -> object:
    deadline = time.monotonic() + within(seconds)
    while not (found := look()):
        assert time.monotonic() < deadline, "what was waited for did not happen"
        threading.Event().wait(0.02)
    return found


class StandInContext:
    """The agent as its plug-ins see it, with everything kept in memory."""

    def __init__(self, state_dir: Path, config: AgentConfig | None = None) -> None:
        self.node = "head"
        self.state_dir = state_dir
        self.config = config or AgentConfig()
        self.events: list[dict] = []
        self.keys: set[str] = set()
        self.handlers: dict[str, Callable[[Command], Outcome]] = {}

    def found_ranks(self):
        return []

    def emit(self, event, urgent=False):  # noqa: FBT002, ARG002 (the agent's interface)
        self.events.append(dict(event))

    def emit_once(self, key, event, urgent=False):  # noqa: FBT002
        if key in self.keys:
            return False
        self.keys.add(key)
        self.emit(event, urgent)
        return True

    def register_command(self, kind, handler, *, repeatable=False):  # noqa: ARG002
        self.handlers[kind] = handler

    def every(self, seconds, call):
        pass

    def add_reader(self, name, read):
        pass

    def declare(self, capability):
        pass

    def of(self, kind: str) -> list[dict]:
        return [event for event in self.events if event["kind"] == kind]


class Cluster:
    """A launcher over a few nodes whose ranks run a short Python text; `head` begins its launcher.toml."""

    def __init__(self, folder: Path, nodes: tuple[str, ...] = ("n01", "n02", "n03"), head: str = "") -> None:
        self.folder = folder
        self.nodes = nodes
        self.head = head
        self.context = StandInContext(folder / "head")
        self.program = folder / "rank.py"
        self.toml = folder / "launcher.toml"
        self.configure(SLEEP)

    def configure(
        self,
        program: str,
        *,
        grace_s: float = 0.3,
        ranks_per_node: int = 1,
        preload: tuple[str, ...] = (),
        supports: tuple[str, ...] = (),
    ) -> None:
        self.program.write_text(program)
        quick = [] if preload else ["-S"]
        command = json.dumps([sys.executable, *quick, str(self.program)])
        nodes = "".join(f'[nodes.{name}]\nstate_dir = "{name}"\n' for name in self.nodes)
        self.toml.write_text(
            f'{self.head}\n[runs.demo]\ncommand = {command}\ncheckpoint_dir = "ck"\ngrace_s = {grace_s}\n'
            f"ranks_per_node = {ranks_per_node}\npreload = {json.dumps(preload)}\n"
            f"supports = {json.dumps(supports)}\n{nodes}"
        )
        self.open()

    def open(self) -> None:
        """Start the launcher anew, as a restarted agent does: nothing but the disk is remembered."""
        if hasattr(self, "launcher"):
            self.launcher.close()
        self.config = launcher_config.load(self.toml)
        self.launcher = adapter(self.config, self.folder / "head" / "launcher")
        self.service = Service(self.context, self.launcher)

    def command(self, kind: str, **args: object) -> Outcome:
        handler = {"attempt.start": self.service.start, "attempt.stop": self.service.stop}.get(kind, self.service.scan)
        return handler(Command(command_id="c1", kind=kind, args=args))

    def start(self, attempt: int = 1, nodes: tuple[str, ...] | None = None, step: int = 0) -> Outcome:
        wanted = list(nodes or self.nodes[:2])
        return self.command("attempt.start", run="demo", attempt=attempt, nodes=wanted, resume={"step": step})

    def stop(self, attempt: int = 1, **args: object) -> Outcome:
        return self.command("attempt.stop", run="demo", attempt=attempt, **args)

    def status(self, rank: int, attempt: int = 1) -> dict:
        found = list(self.folder.glob(f"n*/ranks/demo.{attempt}.{rank}.json"))
        return json.loads(found[0].read_text()) if found else {}

    def pid(self, rank: int, attempt: int = 1) -> int:
        return int(wait_for(lambda: self.status(rank, attempt).get("pid")))

    def living(self) -> list[processes.RankProcess]:
        return processes.of_run("demo", plan.sockets(self.config))

    def told(self, kind: str) -> dict:
        """The first event of a kind, waited for."""

        def look() -> dict | None:
            self.service.tell()
            return next(iter(self.context.of(kind)), None)

        return wait_for(look)

    def exited(self) -> dict:
        return self.told("attempt.exited")

    def close(self) -> None:
        self.launcher.close()
        wait_for(self._ended)

    def _ended(self) -> bool:
        """Kill whoever lives, again and again: a shim may be just about to start its rank."""
        left = self.living()
        for process in left:
            processes.signal_process(process.pid, process.start_ticks, signal.SIGKILL)
        return not left


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
