"""Leave no training process behind when the demonstration is killed outright.

Ranks outlive their agents on purpose, so kill -9 of the demonstration would leave
them training for ever. This small process waits for the pipe to its parent to
close, by whatever death, and then clears up.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from controlplane.embedded.places import forget

ROOT = Path(__file__).resolve().parent.parent.parent
MARKS = ("MIDDLEWATCH_SOCKET", "SLURM_CONF")
"""Variables that name a folder below the home."""
LOOK_S = 0.2
LOOKS = 5
"""So many looks in a row find nothing before the home is taken for empty."""
LIMIT_S = 30.0


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
    """Kill every rank and every part of a Slurm below `home`, then remove the folder.

    A rank may have been started by a launcher that died a moment later, so its process
    is looked for until none shows itself for a while.
    """
    deadline, quiet = time.monotonic() + LIMIT_S, 0
    while quiet < LOOKS and time.monotonic() < deadline:
        quiet = 0 if _end_those_of(home) else quiet + 1
        time.sleep(LOOK_S)
    forget(home / "control")
    shutil.rmtree(home, ignore_errors=True)


def _end_those_of(home: Path) -> bool:
    """Kill what carries the home in its environment, as ranks and all that a Slurm starts do; say whether any did."""
    marks = tuple(f"{name}={home}/".encode() for name in MARKS)
    found = False
    for environ in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if any(value.startswith(marks) for value in environ.read_bytes().split(b"\0")):
                os.kill(int(environ.parent.name), signal.SIGKILL)
                found = True
    return found


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.stdin.buffer.read()
    clear_up(Path(sys.argv[1]))
