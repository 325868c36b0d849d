"""Start the shim of one rank: from a warm process where the run has one, else anew.

A warm process is a help and never a need: one that cannot import, or has died, is
left aside and the rank is started the slow way.
"""

import json
import os
import select
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from middlewatch_agent import shim, warm
from middlewatch_agent.launcher import plan
from middlewatch_agent.launcher.config import LauncherConfig, RunConfig
from middlewatch_agent.launcher.records import AttemptRecord, RankRecord

WARM_UP_S = 30.0
"""How long a start waits for the imports of its warm process."""
FOLDERS = ("ranks", "worker", "logs")


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """All that the shim of a rank is started with."""

    command: list[str]
    environ: Mapping[str, str]
    folder: str
    status: str
    log: str


def order(config: LauncherConfig, record: AttemptRecord, rank: RankRecord) -> Order:
    """Lay out the start of a rank, and make the folders that it needs on its node."""
    run, state_dir = config.run(record.run), Path(config.node(rank.node).state_dir)
    for name in FOLDERS:
        (state_dir / name).mkdir(mode=0o700, parents=True, exist_ok=True)
    environ = plan.environment(config, record, rank, os.environ)
    return Order(
        command=run.command,
        environ=environ | {shim.STATUS: rank.status},
        folder=run.folder or ".",
        status=rank.status,
        log=str(plan.log_file(config, record, rank)),
    )


def shim_command(order: Order) -> list[str]:
    """What starts the shim of a rank: as a file and without site packages, for which it would wait and has no use."""
    python = [sys.executable, "-I", "-S", str(shim.__file__)]
    return [*python, "--status", order.status, "--log", order.log, "--", *order.command]


class Spawner:
    """Starts shims. Not locked: its one user holds a lock."""

    def __init__(self, config: LauncherConfig) -> None:
        """Warm processes are started by `warm_up`, at the latest by the first rank."""
        self._config = config
        self._shims: list[subprocess.Popen[bytes]] = []
        self._warm: dict[str, WarmProcess] = {}

    def warm_up(self) -> None:
        """Begin the imports of every run that asks for them."""
        for name in self._config.runs:
            self._warm_process(name)

    def spawn(self, record: AttemptRecord, rank: RankRecord) -> None:
        """Start one rank under its shim. Raises OSError."""
        wanted = order(self._config, record, rank)
        process = self._warm_process(record.run)
        if process is None or not process.start(wanted):
            self._start_anew(wanted)

    def reap(self) -> None:
        """Take leave of shims that have ended."""
        self._shims = [process for process in self._shims if process.poll() is None]

    def close(self) -> None:
        """End the warm processes; ranks live on."""
        for process in self._warm.values():
            process.close()

    def _start_anew(self, order: Order) -> None:
        command = shim_command(order)
        with Path(order.log).open("ab") as out:
            process = subprocess.Popen(
                command,
                env=order.environ,
                cwd=order.folder,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        self._shims.append(process)

    def _warm_process(self, run: str) -> "WarmProcess | None":
        config = self._config.run(run)
        if not config.preload:
            return None
        if run not in self._warm or not self._warm[run].lives():
            self._warm[run] = WarmProcess(config)
        return self._warm[run]


class WarmProcess:
    """The launcher's end of one `middlewatch_agent.warm`."""

    def __init__(self, run: RunConfig) -> None:
        """Start it with the run's own interpreter and settings. Raises OSError."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("MIDDLEWATCH_")}
        self._ready = False
        self._process = subprocess.Popen(
            [run.command[0], "-m", warm.__name__, *run.preload],
            env=inherited | run.env | {warm.SHOWN: "-" * warm.SHOWN_BYTES},
            cwd=run.folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )

    def lives(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def start(self, order: Order) -> bool:
        """Let it fork a rank; False where it cannot, and then nothing was started."""
        if not self._is_ready() or self._process.stdin is None:
            return False
        try:
            self._process.stdin.write(json.dumps(asdict(order)).encode() + b"\n")
            self._process.stdin.flush()
        except OSError:
            return False
        return True

    def close(self) -> None:
        """Let it end."""
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
        self._process.wait()

    def _is_ready(self) -> bool:
        out = self._process.stdout
        if not self._ready and out is not None:
            heard = select.select([out], [], [], WARM_UP_S)[0]
            self._ready = bool(heard) and out.readline() == warm.READY.encode()
        return self._ready and self.lives()
