"""How long a job takes to come back with nothing but a script that restarts it: `python bench/relaunch.py`.

A rank is killed with SIGKILL, the script kills the others and starts all again
from the newest complete checkpoint. What Middlewatch adds to that is its own cost;
`measure` is a function so that both can be measured in one run, on one machine.

`first_step_s` counts from the kill to the first step of the new ranks, `new_step_s`
to the first step that had not been reached before.
"""

import argparse
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

EXAMPLE = Path(__file__).parents[1] / "examples/tiny_transformer.py"
DEFAULT_COMMAND = (sys.executable, str(EXAMPLE), "--step-s", "0.2", "--checkpoint-every", "15")
START_LIMIT_S = 180.0
STEPS_BEFORE = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Seconds, and how many steps were lost."""

    start_s: float
    first_step_s: float
    new_step_s: float
    steps_lost: int


class Job:
    """The ranks of one job and the steps that they report."""

    def __init__(self, command: tuple[str, ...], ranks: int, folder: Path) -> None:
        """Put checkpoints, logs and the socket into `folder`."""
        self._command = command
        self._ranks = ranks
        self._folder = folder
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(folder / "agent.sock"))
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        """Start every rank as a plain script would."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.processes = [self._rank(rank, port) for rank in range(self._ranks)]

    def kill(self) -> None:
        """End what is left of every rank."""
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.wait()

    def step(self, at_least: int = 0) -> int:
        """Wait for a reported step of at least `at_least` and give it."""
        deadline = time.monotonic() + START_LIMIT_S
        while (left := deadline - time.monotonic()) > 0:
            self._socket.settimeout(left)
            event = json.loads(self._socket.recv(1 << 16))
            if event["kind"] == "rank.step" and event["data"]["step"] >= at_least:
                return int(event["data"]["step"])
        raise TimeoutError(f"no step {at_least} within {START_LIMIT_S:.0f} s; see {self._folder}/*.log")

    def forget(self) -> None:
        """Drop what was reported but not yet looked at."""
        self._socket.setblocking(False)
        try:
            while self._socket.recv(1 << 16):
                pass
        except BlockingIOError:
            self._socket.setblocking(True)

    def _rank(self, rank: int, port: int) -> subprocess.Popen[bytes]:
        environ = {
            "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1",
            "RANK": str(rank), "LOCAL_RANK": "0", "WORLD_SIZE": str(self._ranks),
            "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
            "MIDDLEWATCH_RUN": "bare", "MIDDLEWATCH_SOCKET": str(self._folder / "agent.sock"),
            "MIDDLEWATCH_CHECKPOINT_DIR": str(self._folder / "checkpoints"),
        }  # fmt: skip
        with (self._folder / f"{rank}.log").open("ab") as log:
            return subprocess.Popen(self._command, env=os.environ | environ, stdout=log, stderr=log)


def measure(command: tuple[str, ...] = DEFAULT_COMMAND, *, ranks: int = 4, victim: int = 1) -> Figures:
    """Start the job, let it take steps, kill one rank, restart all, and time it."""
    with tempfile.TemporaryDirectory(prefix="mw-relaunch-") as place:
        job = Job(command, ranks, Path(place))
        began = time.monotonic()
        try:
            job.start()
            job.step()
            start_s = time.monotonic() - began
            reached = job.step(STEPS_BEFORE)
            job.processes[victim].send_signal(signal.SIGKILL)
            killed = time.monotonic()
            job.processes[victim].wait()
            job.kill()
            job.forget()
            job.start()
            first = job.step()
            first_step_s = time.monotonic() - killed
            job.step(reached + 1)
            return Figures(
                start_s=round(start_s, 2), first_step_s=round(first_step_s, 2),
                new_step_s=round(time.monotonic() - killed, 2), steps_lost=reached - first + 1,
            )  # fmt: skip
        finally:
            job.kill()


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--command", help="the job's command instead of the example's")
    args = parser.parse_args()
    command = tuple(shlex.split(args.command)) if args.command else DEFAULT_COMMAND
    found = measure(command, ranks=args.ranks)
    if args.json:
        print(json.dumps(asdict(found)))
    else:
        print(
            f"{args.ranks} ranks: start to first step {found.start_s:.2f} s; kill -9 to first step "
            f"{found.first_step_s:.2f} s, to a new step {found.new_step_s:.2f} s ({found.steps_lost} steps lost)"
        )


if __name__ == "__main__":
    main()
