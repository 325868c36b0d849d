"""Run the replay command beside a worker: less urgent than live work, bounded, and gone when the worker is."""

import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).resolve().parents[2]
COMMAND: tuple[str, ...] = (sys.executable, str(ROOT / "manage.py"), "replay")
LIMIT_S = 600.0
GRACE_S = 15.0
"""From the polite request to end, which lets the command delete its database, to the rude one."""
NICE = 5
MAX_REPORT_BYTES = 4 << 20
MAX_WHY = 500
NOT_PASSED = frozenset({
    "DATABASE_URL", "REDIS_URL", "DJANGO_SETTINGS_MODULE", "MIDDLEWATCH_SECRET_KEY", "MIDDLEWATCH_HOME",
})  # fmt: skip
"""Whatever could lead the command to the live installation, or let it speak in its name."""
NO_SERVER = "the worker's machine has no PostgreSQL program: install requirements/lock/embedded.txt there"

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


class Failed(Exception):
    """The command gave no report; the message says why, for a person."""


def play(trace: Path, settings: Sequence[str], *, limit_s: float | None = None) -> dict[str, Any]:
    """Replay `trace` under `settings` (`name=value` each) and return the report.

    Blocks for at most `limit_s` seconds (LIMIT_S) and GRACE_S.

    Raises:
        Failed: the command could not play it, took too long, or told no report.
    """
    argv = [*COMMAND, str(trace), "--json", *(f"--set={pair}" for pair in settings)]
    with tempfile.TemporaryFile() as told, tempfile.TemporaryFile() as complaints:
        code = _run(argv, told, complaints, LIMIT_S if limit_s is None else limit_s)
        if code:
            raise Failed(_why(complaints, trace))
        return _report(told)


def _run(argv: Sequence[str], told: IO[bytes], complaints: IO[bytes], limit_s: float) -> int:
    try:
        child = subprocess.Popen(
            argv, cwd=ROOT, env={name: value for name, value in os.environ.items() if name not in NOT_PASSED},
            stdin=subprocess.DEVNULL, stdout=told, stderr=complaints, start_new_session=True,
            preexec_fn=_tie_to(os.getpid()),  # noqa: PLW1509 - nothing between fork and exec but two system calls
        )  # fmt: skip
    except OSError as error:
        raise Failed(f"the replay cannot be started: {error.strerror}") from error
    try:
        return child.wait(limit_s)
    except subprocess.TimeoutExpired:
        raise Failed(f"the replay took longer than {limit_s:g} s") from None
    finally:
        _end(child)


def _tie_to(parent: int) -> Any:
    """Have the child give way to live work, and be told to end when the thread that waits for it is gone."""
    libc = _LIBC

    def tie() -> None:
        os.nice(NICE)
        if libc is not None:
            libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)

    return tie


def _end(child: subprocess.Popen[bytes]) -> None:
    """End the command and what it started, if it has not ended by itself."""
    if child.returncode is not None:
        return
    child.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(GRACE_S)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def _why(complaints: IO[bytes], trace: Path) -> str:
    """Give the last line that the command complained, which is its reason."""
    complaints.seek(max(0, complaints.seek(0, os.SEEK_END) - 10 * MAX_WHY))
    lines = [line.strip() for line in complaints.read().decode(errors="replace").splitlines() if line.strip()]
    last = lines[-1].removeprefix(f"{trace}: ") if lines else "the replay ended without a word"
    if last.startswith("PostgreSQL") and "not found" in last:
        return NO_SERVER
    return last[:MAX_WHY].replace("\0", "")


def _report(told: IO[bytes]) -> dict[str, Any]:
    if told.seek(0, os.SEEK_END) > MAX_REPORT_BYTES:
        raise Failed(f"the report is larger than {MAX_REPORT_BYTES >> 20} MiB")
    told.seek(0)
    try:
        found = json.loads(told.read(), parse_constant=lambda _: None)
    except ValueError:
        raise Failed("the replay told no report") from None
    if not isinstance(found, dict) or not isinstance(found.get("incidents"), list):
        raise Failed("the replay told no report")
    return found
