"""A whole Slurm on this machine: munge, a controller and a few nodes, as children of one process.

What a scheduler really does with a lost node cannot be imitated, so the tests, the
benchmark and the demonstration use Debian's own Slurm. It needs no systemd, no
container and no fixed port, several may run side by side, and nothing is left behind.
"""

import os
import secrets
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

import psutil

from controlplane.demo import slurm_conf
from controlplane.embedded.child import Child, Program, wait_until
from controlplane.embedded.errors import CannotStart

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "sinfo", "scontrol", "scancel", "srun")
PACKAGES = "slurmctld slurmd slurm-client munge slurm-wlm-basic-plugins"
SEARCHED = ("/usr/sbin", "/usr/local/sbin", "/sbin")
NODES = ("n1", "n2", "n3", "n4")
CONF, NODENAME = "SLURM_CONF", "SLURMD_NODENAME"
SPOOL = "spool-"
CONTROLLER, MUNGE = "slurmctld", "munged"
READY_LIMIT_S = 20.0
STOP_LIMIT_S = 2.0
TOOL_LIMIT_S = 15.0
KEY_BYTES = 1024
LOG_TAIL = 800


def missing() -> list[str]:
    """Name the programs of Slurm that this machine lacks."""
    return [name for name in PROGRAMS if not _find(name)]


def _find(name: str) -> str | None:
    return shutil.which(name) or shutil.which(name, path=os.pathsep.join(SEARCHED))


class SlurmLab:
    """A cluster below `folder`; use it as a context.

    `settings` replace lines of the configuration, `nodes` are its machines.
    """

    def __init__(
        self, folder: Path, *, nodes: Sequence[str] = NODES, cpus: int = 2, settings: Mapping[str, str] | None = None
    ) -> None:
        self.folder = folder
        self.nodes = tuple(nodes)
        self.config = folder / "slurm.conf"
        self._cpus = cpus
        self._settings = dict(settings or {})
        self._children: dict[str, Child] = {}

    @property
    def environ(self) -> dict[str, str]:
        """What the command-line tools find this cluster by; add it to an environment."""
        return {CONF: str(self.config)}

    def __enter__(self) -> Self:
        """Start everything and wait for idle nodes.

        Raises:
            CannotStart: when Slurm is not installed or a part of it does not come up.
        """
        if lacks := missing():
            raise CannotStart(f"Slurm is not installed ({', '.join(lacks)} missing): apt-get install {PACKAGES}")
        try:
            self._prepare()
            self._start_all()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_error: object) -> None:
        """Stop everything."""
        self.close()

    def close(self) -> None:
        """End the daemons, then every step and job that they left."""
        for child in reversed(self._children.values()):
            child.stop()
        self._children.clear()
        for process in self.processes():
            with suppress(psutil.Error):
                process.kill()

    def tool(self, name: str, *args: str, check: bool = True) -> str:
        """Call a command-line tool of this cluster and return what it printed."""
        done = subprocess.run(
            [_find(name) or name, *args], check=False, capture_output=True, text=True, timeout=TOOL_LIMIT_S,
            env={**os.environ, **self.environ},
        )  # fmt: skip
        if check and done.returncode:
            raise RuntimeError(f"{name} {' '.join(args)}: {done.stderr.strip()}")
        return done.stdout

    def states(self) -> dict[str, str]:
        """Return the compact state of each node in Slurm's words: `idle`, `alloc*`, `drain` and so on."""
        lines = self.tool("sinfo", "-h", "-N", "-p", "main", "-o", "%N %t", check=False).split("\n")
        return dict(line.split() for line in lines if line)

    def pid(self, name: str) -> int:
        """Return the process of a daemon: a node's name, `slurmctld` or `munged`."""
        return self._children[name].pid

    def processes(self, node: str | None = None) -> list[psutil.Process]:
        """Return all that runs in this cluster but its daemons: steps and tasks, of one node or of all."""
        daemons = {child.pid for child in self._children.values()}
        return [one for one in self._living(node) if one.pid not in daemons]

    def _living(self, node: str | None) -> Iterator[psutil.Process]:
        for process in psutil.process_iter():
            with suppress(psutil.Error, OSError):
                place = self._place(process)
                if place and node in (None, place) and process.status() != psutil.STATUS_ZOMBIE:
                    yield process

    def _place(self, process: psutil.Process) -> str | None:
        """Return the node that a process belongs to: a step works in its daemon's folder, a task is told the name."""
        folder = Path(process.cwd())
        if folder.parent == self.folder and folder.name.startswith(SPOOL):
            return folder.name.removeprefix(SPOOL)
        environ = process.environ()
        return environ.get(NODENAME) if environ.get(CONF) == str(self.config) else None

    # faults

    def freeze(self, node: str) -> None:
        """Imitate a dead host: its daemon and every step and task on it stand still."""
        for pid in (self.pid(node), *(process.pid for process in self.processes(node))):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)

    def thaw(self, node: str) -> None:
        """Let a frozen host go on."""
        for pid in (self.pid(node), *(process.pid for process in self.processes(node))):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    def kill(self, daemon: str) -> None:
        """Kill one daemon alone; what it had started lives on."""
        child = self._children.pop(daemon)
        os.kill(child.pid, signal.SIGKILL)
        child.reap()

    def stop(self, daemon: str) -> None:
        """End one daemon in order; a controller that is killed instead forgets its newest jobs."""
        self._children.pop(daemon).stop()

    def start(self, daemon: str) -> None:
        """Start a daemon that is not there: a node's name or `slurmctld`."""
        if daemon == CONTROLLER:
            self._start(CONTROLLER, [str(_find(CONTROLLER)), "-D"], self.folder)
            self._wait(lambda: bool(self.states()), "the controller does not answer")
        else:
            self._start(daemon, [str(_find("slurmd")), "-D", "-N", daemon], self.folder / f"{SPOOL}{daemon}")

    # cleaning

    def clean(self) -> None:
        """End all jobs and make every node idle again, for the next test.

        Raises:
            CannotStart: when a node stays occupied.
        """
        for name in (CONTROLLER, *self.nodes):
            if name not in self._children:
                self.start(name)
        for node in self.nodes:
            self.thaw(node)
        self._cancel_all()
        self._wait(self._is_idle, "the nodes do not become idle")

    def _cancel_all(self) -> None:
        jobs = self.tool("squeue", "-h", "-o", "%A", "-t", "all").split()
        if jobs:
            self.tool("scancel", "--full", "-s", "KILL", *jobs, check=False)
            self.tool("scancel", *jobs, check=False)
        for process in self.processes():
            with suppress(psutil.Error):
                process.kill()

    def _is_idle(self) -> bool:
        busy = self.tool("squeue", "-h", "-o", "%A", check=False).split()
        states = self.states()
        for node in (node for node in self.nodes if states.get(node, "unk") not in {"idle", "comp", "unk", "unk*"}):
            self.tool("scontrol", "update", f"nodename={node}", "state=resume", check=False)
        return not busy and all(states.get(node) == "idle" for node in self.nodes)

    # starting

    def _prepare(self) -> None:
        for name in ("state", *(f"{SPOOL}{node}" for node in self.nodes)):
            (self.folder / name).mkdir(mode=0o755, parents=True, exist_ok=True)
        key = self.folder / "munge.key"
        key.write_bytes(secrets.token_bytes(KEY_BYTES))
        key.chmod(0o600)
        self.config.write_text(slurm_conf.text(self.folder, self.nodes, self._cpus, self._settings))

    def _start_all(self) -> None:
        folder = self.folder
        munge = [
            "-F", "--force", f"--key-file={folder}/munge.key", f"--socket={folder}/munge.sock",
            f"--pid-file={folder}/munge.pid", f"--log-file={folder}/munged.log", f"--seed-file={folder}/munge.seed",
        ]  # fmt: skip
        self._start(MUNGE, [str(_find(MUNGE)), *munge], folder)
        self._wait((folder / "munge.sock").exists, "munged does not come up")
        self._start(CONTROLLER, [str(_find(CONTROLLER)), "-D", "-i"], folder)
        for node in self.nodes:
            self.start(node)
        self._wait(lambda: set(self.states().values()) == {"idle"}, "the nodes do not become idle")

    def _start(self, name: str, argv: list[str], cwd: Path) -> None:
        self._children[name] = Child(
            Program(
                name=name, argv=argv, env={**os.environ, **self.environ}, cwd=cwd,
                log=self.folder / f"{name}.out", stop_limit_s=STOP_LIMIT_S,
            ),
            time.time(),
        )  # fmt: skip

    def _wait(self, true: Callable[[], bool], otherwise: str) -> None:
        if not wait_until(lambda: true() or self._controller_ended(), READY_LIMIT_S) or not true():
            told = "".join(path.read_text(errors="replace") for path in sorted(self.folder.glob(f"{CONTROLLER}.[ol]*")))
            raise CannotStart(f"Slurm: {otherwise}. Nodes: {self.states()}. The controller says: {told[-LOG_TAIL:]}")

    def _controller_ended(self) -> bool:
        return CONTROLLER in self._children and self._children[CONTROLLER].ended()
