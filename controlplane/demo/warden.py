"""Leave no training process behind when the demonstration is killed outright.

Ranks outlive their agents on purpose, so kill -9 of the demonstration would leave
them training for ever. This small process waits for the pipe to its parent to
close, by whatever death, and then clears up.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from controlplane.embedded.places import forget

ROOT = Path(__file__).resolve().parent.parent.parent


@contextmanager
def over(home: Path) -> Iterator[None]:
    """Have `home` cleared up at the end, also when this process does not live to see it."""
    argv = [sys.executable, "-m", "controlplane.demo.warden", str(home)]
    warden = subprocess.Popen(argv, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True)
    try:
        yield
    finally:
        warden.communicate()


def clear_up(home: Path) -> None:
    """Kill every rank and every part of a Slurm below `home`, then remove the folder."""
    for path in home.glob("nodes/*/ranks/*.json"):
        with suppress(OSError, ValueError, KeyError):
            status = json.loads(path.read_text(encoding="utf-8"))
            if "exited_at_ms" not in status and _started(status["pid"]) == status["start_ticks"]:
                os.kill(status["pid"], signal.SIGKILL)
    _end_slurm(home)
    forget(home / "control")
    shutil.rmtree(home, ignore_errors=True)


def _end_slurm(home: Path) -> None:
    """Kill the daemons of the Slurm of `home` and all that they started: each has been told its configuration."""
    mark = f"SLURM_CONF={home}/".encode()
    for environ in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if any(value.startswith(mark) for value in environ.read_bytes().split(b"\0")):
                os.kill(int(environ.parent.name), signal.SIGKILL)


def _started(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[19])


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.stdin.buffer.read()
    clear_up(Path(sys.argv[1]))
