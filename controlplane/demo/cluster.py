"""Seven real agents on one machine: a head node with the launcher, and six nodes.

Each node is a state folder and an agent process; the ranks of an attempt are
started by the head node's launcher exactly as on a machine of its own.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from controlplane.domain.errors import Invalid
from controlplane.embedded.plane import ControlPlane

HEAD = "head"
ROOT = Path(__file__).resolve().parent.parent.parent
PIDS = "agents.json"
SLURM_FOLDER = "slurm"
"""Where below its home a demonstration keeps its Slurm."""
HEARTBEAT_S = 1.0
HEALTH_S = 2.0
AGENT = (sys.executable, "-m", "middlewatch_agent")

RUN_TOML = """
[runs.{run}]
command = {command}
ranks_per_node = 1
supports = {supports}
checkpoint_dir = "{checkpoints}"
grace_s = {grace_s}
env = {{ OMP_NUM_THREADS = "1", MKL_NUM_THREADS = "1", MIDDLEWATCH_DEMO_FAULTS = "{faults}" }}
preload = {preload}
"""
SABOTAGE = str(ROOT / "examples/sabotage.py")
REQUEST = "request.json"
"""Where the saboteur of each rank looks, below the folder that its environment names."""
CHECKPOINT_EVERY = 15
KEPT = 10
"""Checkpoints that stay, so that a rollback finds one from a hundred steps before."""
TRAINER = (
    sys.executable, SABOTAGE, str(ROOT / "examples/tiny_transformer.py"), "--step-s", "0.25",
    "--checkpoint-every", str(CHECKPOINT_EVERY), "--keep", str(KEPT),
)  # fmt: skip
PRELOAD = ("torch", "torch._dynamo", "middlewatch_agent.hooks.checkpoints", "middlewatch_agent.hooks.ddp")


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What the launcher starts as a rank, and the modules that its ranks share."""

    command: tuple[str, ...] = TRAINER
    preload: tuple[str, ...] = PRELOAD
    supports: tuple[str, ...] = ("skip_batches", "save_now", "stop_now")
    grace_s: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RankProcess:
    """A training process that lives now."""

    node: str
    rank: int
    attempt: int
    pid: int


@dataclass(kw_only=True)
class Cluster:
    """The demonstration's machines, under one folder."""

    home: Path
    names: tuple[str, ...]
    job: Job = field(default_factory=Job)
    agents: dict[str, int] = field(default_factory=dict)
    launcher: str = 'scheduler = "local"\n'
    """How the launcher's file begins: its scheduler, and where that is."""

    @classmethod
    def load(cls, home: Path) -> "Cluster":
        """Find the machines of a demonstration that another process runs.

        Raises:
            Invalid: no demonstration keeps its things in that folder.
        """
        try:
            agents = json.loads((home / PIDS).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            raise Invalid("home", f"no demonstration runs in {home}") from None
        return cls(home=home, names=tuple(name for name in agents if name != HEAD), agents=agents)

    def state(self, node: str) -> Path:
        """Return the folder in which the agent of `node` keeps its things."""
        return self.home / "nodes" / node

    @property
    def checkpoints(self) -> Path:
        """Return the folder below which every run saves; the nodes' probes write there too."""
        return self.home / "checkpoints"

    @property
    def faults(self) -> Path:
        """Return the folder in which the ranks look for what to do wrong."""
        return self.home / "faults"

    def run_folders(self) -> list[Path]:
        """Return the folders of the runs' checkpoints."""
        return [path for path in self.checkpoints.iterdir() if path.is_dir()]

    def saved(self) -> list[Path]:
        """Return the checkpoints that lie there, whole or not."""
        return [path for folder in self.run_folders() for path in folder.glob("step-*")]

    def ask(self, kind: str, **what: object) -> None:
        """Leave a request for the ranks' saboteurs (examples/sabotage.py)."""
        half = self.faults / "request.new"
        half.write_text(json.dumps({"kind": kind, **what}), encoding="utf-8")
        half.rename(self.faults / REQUEST)

    def enrol(self, url: str, token: str, *runs: str) -> None:
        """Buy a token for every agent, write its settings and which runs the launcher may start."""
        self.checkpoints.mkdir(parents=True, exist_ok=True)
        self.faults.mkdir(parents=True, exist_ok=True)
        for name in (HEAD, *self.names):
            argv = ["enrol", "--url", url, "--token", token, "--name", name, "--state", str(self.state(name))]
            subprocess.run([*AGENT, *argv], check=True, stdout=subprocess.DEVNULL)
            with (self.state(name) / "agent.toml").open("a", encoding="utf-8") as settings:
                settings.write(f"heartbeat_s = {HEARTBEAT_S}\nhealth_s = {HEALTH_S}\n")
                settings.write(f"disks = [{json.dumps(str(self.checkpoints))}]\n" if name != HEAD else "")
        self._write_launcher(runs)

    def start(self, plane: ControlPlane) -> None:
        """Start every agent; none is started again when it dies."""
        for name in (HEAD, *self.names):
            self.agents[name] = plane.spawn(f"agent-{name}", self.argv(name), dict(os.environ), stop_limit_s=3.0)
        (self.home / PIDS).write_text(json.dumps(self.agents), encoding="utf-8")

    def argv(self, name: str) -> list[str]:
        """Return the command that starts the agent of `name`."""
        launcher = ["--launcher", str(self.home / "launcher.toml")] if name == HEAD else []
        return [*AGENT, "run", "--state", str(self.state(name)), *launcher]

    def _write_launcher(self, runs: Iterable[str]) -> None:
        text = self.launcher + "".join(map(self._run_toml, runs))
        for name in self.names:
            text += f'\n[nodes.{name}]\nstate_dir = "{self.state(name)}"\n'
        (self.home / "launcher.toml").write_text(text, encoding="utf-8")

    def _run_toml(self, run: str) -> str:
        return RUN_TOML.format(
            run=run,
            command=json.dumps(self.job.command),
            grace_s=self.job.grace_s,
            supports=json.dumps(self.job.supports),
            preload=json.dumps(self.job.preload),
            checkpoints=self.checkpoints / run,
            faults=self.faults,
        )

    def ranks(self) -> list[RankProcess]:
        """Return the rank processes that live now, by rank."""
        return sorted(self._living(), key=lambda process: process.rank)

    def processes_on(self, node: str) -> list[int]:
        """Return the pids of every rank on `node`, each with the shim that waits for it."""
        pids = []
        for process in self._living():
            if process.node == node:
                pids += [_parent(process.pid), process.pid]
        return pids

    def end_training(self) -> None:
        """Kill every rank; the agents are the control plane's children and end with it."""
        for name in self.names:
            kill(self.processes_on(name))

    def _living(self) -> Iterator[RankProcess]:
        for name in self.names:
            for path in (self.state(name) / "ranks").glob("*.json"):
                status = json.loads(path.read_text(encoding="utf-8"))
                if "exited_at_ms" not in status and _alive(status["pid"]):
                    yield RankProcess(node=name, rank=status["rank"], attempt=status["attempt"], pid=status["pid"])


def kill(pids: Iterable[int]) -> None:
    """Kill processes that may be gone already."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1])
