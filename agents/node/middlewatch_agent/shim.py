"""Wait for one rank and write down how it ended.

A killed agent must not lose the exit status of the ranks it started, and only a
parent ever learns that status. So each rank gets a parent of its own that does
nothing else: it starts the rank, keeps one small status file, and dies last. If
the shim itself is killed the kernel kills the rank with it, so that no rank runs
on with nobody to tell how it ended. Standard library only: it starts in a few
tens of milliseconds and stays small.

    python -I -S shim.py --status FILE [--log FILE] -- COMMAND…

Run, attempt, rank and sockets are read from the environment that the rank
inherits (docs/architecture.md). A status file that is already there means that
this rank was started before: the shim then starts nothing and exits with 3.
"""

import contextlib
import ctypes
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from types import FrameType
from typing import Any

ALREADY_STARTED = 3
NOT_EXECUTED = 127
SIGNAL_BASE = 128
MAX_ERROR_FILE_BYTES = 1 << 20
MAX_MESSAGE_CHARS = 2_000
MAX_TRACEBACK_CHARS = 4_096
MAX_INHERITED_FD = 1_024
PR_SET_PDEATHSIG = 1
MARK = "MIDDLEWATCH_SHIM"
"""Set in the environment of a rank and everything it starts, never in the shim's own."""
STATUS = "MIDDLEWATCH_STATUS"
"""Names the status file in the environment of a shim, so that it can be told from a stranger with its pid."""

Status = dict[str, Any]
Become = Callable[[int], None]
"""Turns the forked child into the rank, closes the given descriptor when it has, and does not return."""


def now_ms() -> int:
    """The wall clock in milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


def start_ticks(pid: int) -> int | None:
    """When a process started, in clock ticks since boot; with the pid it names one process for ever."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:  # noqa: PTH123 (pathlib would double the start time)
            return int(stat.read().rpartition(b")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return None


def write_status(path: str, status: Mapping[str, Any]) -> None:
    """Replace the status file at once: a reader sees the old or the new one, never half of it."""
    folder, name = os.path.split(path)
    scratch = os.path.join(folder, f".{name}.tmp")  # noqa: PTH118
    with open(scratch, "w", encoding="utf-8") as file:  # noqa: PTH123
        json.dump(status, file)
    os.replace(scratch, path)  # noqa: PTH105


def claim(path: str) -> bool:
    """Become the only shim of this status file; False if there has been one already."""
    try:
        os.close(os.open(f"{path}.claim", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        return False
    return True


def claimed(path: str) -> bool:
    """Whether a shim has ever taken this status file."""
    return os.path.exists(f"{path}.claim")  # noqa: PTH110


def initial_status(environ: Mapping[str, str], log: str | None) -> Status:
    """What is known before the rank exists."""
    return {
        "run": environ.get("MIDDLEWATCH_RUN", ""),
        "attempt": int(environ.get("MIDDLEWATCH_ATTEMPT", "0")),
        "rank": int(environ.get("RANK", "0")),
        "local_rank": int(environ.get("LOCAL_RANK", "0")),
        "log": log,
        "worker_socket": environ.get("MIDDLEWATCH_WORKER_SOCKET"),
        "shim_pid": os.getpid(),
    }


def execute(command: Sequence[str]) -> Become:
    """Become a program, as a rank usually does."""

    def become(_ready: int) -> None:
        try:
            os.execvp(command[0], list(command))  # noqa: S606
        except OSError as error:
            os.write(2, f"middlewatch shim: cannot start {command[0]!r}: {error.strerror}\n".encode())
            os._exit(NOT_EXECUTED)

    return become


def _enter(log: str | None, shim_pid: int, libc: ctypes.CDLL, ready: int) -> None:
    """Give the forked child a session, a log and a mark of its own, and bind its life to the shim's."""
    try:
        os.setsid()
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != shim_pid:
            os._exit(NOT_EXECUTED)
        if log:
            out = os.open(log, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
            os.dup2(out, 1)
            os.dup2(out, 2)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.closerange(3, ready)
        os.closerange(ready + 1, MAX_INHERITED_FD)
    except OSError:
        os._exit(NOT_EXECUTED)
    os.environ[MARK] = str(shim_pid)


def start(become: Become, log: str | None) -> int:
    """Fork the rank into a session of its own and return its pid.

    Returns when the program has taken the child over: from then on signals reach
    the rank's group, and its environment shows whose it is.
    """
    libc = ctypes.CDLL(None)
    shim_pid = os.getpid()
    heard, ready = os.pipe()
    pid = os.fork()
    if pid == 0:
        _enter(log, shim_pid, libc, ready)
        become(ready)
    os.close(ready)
    os.read(heard, 1)
    os.close(heard)
    return pid


def forward_signals(pid: int) -> None:
    """Hand what the shim is told to the rank's process group; the shim itself stays to the end."""

    def forward(number: int, _frame: FrameType | None) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, number)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, forward)


def wait(pid: int) -> tuple[int | None, int | None]:
    """Wait for the rank, end what it left behind in its group, and return (exit code, signal)."""
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return (code, None) if code >= 0 else (None, -code)


def read_error(path: str | None) -> Status | None:
    """The exception that torchelastic's `record` (or our hooks) left, or None.

    The file is untrusted: it is read only up to a limit and every string is cut.
    """
    if not path:
        return None
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            found = json.loads(file.read(MAX_ERROR_FILE_BYTES))["message"]
        text, extra = (found, {}) if isinstance(found, str) else (found["message"], found.get("extraInfo") or {})
        kind, colon, message = str(text).partition(": ")
        return {
            "type": kind[:200] if colon else "",
            "message": (message if colon else str(text))[:MAX_MESSAGE_CHARS],
            "traceback_tail": str(extra.get("py_callstack", ""))[-MAX_TRACEBACK_CHARS:],
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def supervise(status_path: str, log: str | None, become: Become) -> int:
    """Run one rank from its start to its recorded end, and end as it did: a scheduler above sees nothing but that."""
    if not claim(status_path):
        return ALREADY_STARTED
    status = initial_status(os.environ, log)
    pid = start(become, log)
    forward_signals(pid)
    status |= {"pid": pid, "start_ticks": start_ticks(pid), "started_at_ms": now_ms()}
    write_status(status_path, status)
    exit_code, number = wait(pid)
    status |= {"exit_code": exit_code, "signal": number, "exited_at_ms": now_ms()}
    error = read_error(os.environ.get("TORCHELASTIC_ERROR_FILE"))
    if error and (exit_code or number):
        status["error"] = error
    write_status(status_path, status)
    return SIGNAL_BASE + number if number else exit_code or 0


def parse(arguments: Sequence[str]) -> tuple[str, str | None, list[str]]:
    """Split `--status FILE [--log FILE] -- COMMAND…` (argparse would double the start time)."""
    if "--" not in arguments:
        raise SystemExit("shim: the command stands behind `--`")
    cut = list(arguments).index("--")
    options, command = list(arguments[:cut]), list(arguments[cut + 1 :])
    if len(options) % 2 or not set(options[::2]) <= {"--status", "--log"}:
        raise SystemExit("shim: usage: --status FILE [--log FILE] -- COMMAND…")
    given = dict(zip(options[::2], options[1::2], strict=True))
    if "--status" not in given or not command:
        raise SystemExit("shim: --status FILE and a command are needed")
    return given["--status"], given.get("--log"), command


if __name__ == "__main__":
    given_status, given_log, given_command = parse(sys.argv[1:])
    sys.exit(supervise(given_status, given_log, execute(given_command)))
