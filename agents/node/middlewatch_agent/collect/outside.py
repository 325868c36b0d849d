"""Learn where a rank stands when its WorkerServer does not say."""

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from middlewatch_agent.collect.frames import MAX_FRAMES, Stack, frame, main_thread
from middlewatch_agent.hooks.worker import STACKS_SUFFIX
from middlewatch_agent.launcher.processes import signal_process
from middlewatch_agent.ranks.status import RankStatus

MAX_DUMP_BYTES = 256 << 10
SETTLED_S = 0.02


def by_signal(rank: RankStatus, *, timeout_s: float) -> Stack | None:
    """Let `faulthandler` write the stacks: only where our hooks said so, for SIGUSR1 kills all others."""
    path = Path(f"{rank.worker_socket}{STACKS_SUFFIX}") if rank.worker_socket else None
    if path is None or rank.start_ticks is None or not path.is_file() or not _catches(rank.pid, signal.SIGUSR1):
        return None
    began = path.stat().st_size
    signal_process(rank.pid, rank.start_ticks, signal.SIGUSR1)
    dump = _grown(path, began, timeout_s)
    frames = main_thread(dump)
    return Stack(tool="faulthandler", ok=True, frames=frames, thread="MainThread") if frames else None


def _grown(path: Path, began: int, timeout_s: float) -> str:
    deadline, size = time.monotonic() + timeout_s, began
    while time.monotonic() < deadline:
        time.sleep(SETTLED_S)
        now = path.stat().st_size
        if now == size and now > began:
            break
        size = now
    with path.open("rb") as file:
        file.seek(began)
        return file.read(MAX_DUMP_BYTES).decode(errors="replace")


def _catches(pid: int, number: signal.Signals) -> bool:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        mask = next(int(line.split()[1], 16) for line in lines if line.startswith("SigCgt:"))
    except (OSError, StopIteration, ValueError, IndexError):
        return False
    return bool(mask >> (number - 1) & 1)


def by_py_spy(rank: RankStatus, *, timeout_s: float) -> Stack | None:
    """Read the stack from the process's memory without stopping it, where py-spy is installed."""
    program = shutil.which("py-spy") or shutil.which("py-spy", path=str(Path(sys.executable).parent))
    if program is None:
        return None
    command = [program, "dump", "--nonblocking", "--json", "--pid", str(rank.pid)]
    try:
        done = subprocess.run(command, capture_output=True, timeout=timeout_s, check=True)
        threads = json.loads(done.stdout[:MAX_DUMP_BYTES])
        frames = tuple(_frame(one) for one in _main(threads)["frames"][:MAX_FRAMES])
    except (OSError, subprocess.SubprocessError, ValueError, LookupError, TypeError):
        return None
    return Stack(tool="py-spy", ok=True, frames=frames, thread="MainThread") if frames else None


def _main(threads: list[dict[str, Any]]) -> dict[str, Any]:
    named = [thread for thread in threads if thread.get("thread_name") == "MainThread"]
    return named[0] if named else threads[-1]


def _frame(one: dict[str, Any]) -> str:
    return frame(str(one["name"]), str(one["filename"]), int(one.get("line") or 0))
