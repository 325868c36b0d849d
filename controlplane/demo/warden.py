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
from contextlib import suppress
from pathlib import Path

from controlplane.embedded.places import forget


def keep(home: Path) -> "subprocess.Popen[bytes]":
    """Start the warden of `home`; it acts when this process ends or closes the pipe."""
    argv = [sys.executable, "-m", "controlplane.demo.warden", str(home)]
    return subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True)


def clear_up(home: Path) -> None:
    """Kill every rank process below `home`, then remove the folder."""
    for path in home.glob("nodes/*/ranks/*.json"):
        with suppress(OSError, ValueError, KeyError):
            status = json.loads(path.read_text(encoding="utf-8"))
            if "exited_at_ms" not in status and _started(status["pid"]) == status["start_ticks"]:
                os.kill(status["pid"], signal.SIGKILL)
    forget(home / "control")
    shutil.rmtree(home, ignore_errors=True)


def _started(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[19])


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.stdin.buffer.read()
    clear_up(Path(sys.argv[1]))
