"""One program of the group: how it is started, and how it is made to end.

Each child has a session of its own, so that Ctrl-C at the terminal reaches the
supervisor alone and the order of stopping stays the supervisor's. The kernel
is told to signal the child when the supervisor dies, so that kill -9 of the
supervisor leaves nothing behind.
"""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from controlplane.embedded.accounts import Account, identity

PR_SET_PDEATHSIG = 1
POLL_S = 0.02
LIBC = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What to run and how to treat it.

    `stdin` is fed to the program, `orphaned` is the signal that the kernel
    sends it when the supervisor dies, `stop_limit_s` is how long it may take
    to end after `stop` before it is killed.
    """

    name: str
    argv: Sequence[str | Path]
    env: Mapping[str, str]
    cwd: Path
    log: Path
    account: Account | None = None
    stdin: bytes = b""
    restart: bool = True
    stop: signal.Signals = signal.SIGTERM
    stop_limit_s: float = 10.0
    orphaned: signal.Signals = signal.SIGKILL


class Child:
    """A program that was started."""

    def __init__(self, program: Program, now: float) -> None:
        self.program = program
        self.started = now
        with program.log.open("ab") as log, _fed(program.stdin) as stdin:
            self._process = subprocess.Popen(
                program.argv, env=program.env, cwd=program.cwd, stdin=stdin, stdout=log, stderr=subprocess.STDOUT,
                start_new_session=True, preexec_fn=_tie_to_parent(program.orphaned),  # noqa: PLW1509
                **identity(program.account),
            )  # fmt: skip

    @property
    def pid(self) -> int:
        """Process id; also the id of its session and process group."""
        return self._process.pid

    def ended(self) -> bool:
        """Tell whether it ended, without reaping it: until then its id belongs to nobody else."""
        if self._process.returncode is not None:
            return True
        try:
            return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        except ChildProcessError:
            return True

    def reap(self) -> int:
        """Collect the exit status of an ended child; a negative one is the number of a signal."""
        return self._process.wait()

    def ask_to_end(self) -> None:
        """Send the signal that ends it, and wait for nothing; `stop` may follow."""
        if not self.ended():
            self._signal(self.program.stop)

    def stop(self) -> int:
        """End it and everything left in its process group; return the exit status."""
        if self._process.returncode is None:
            self._signal(self.program.stop)
            wait_until(self.ended, self.program.stop_limit_s)
            self._signal(signal.SIGKILL)
        return self.reap()

    def _signal(self, what: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if what is signal.SIGKILL:
                os.killpg(self.pid, what)
            else:
                os.kill(self.pid, what)


def wait_until(true: Callable[[], bool], limit_s: float) -> bool:
    """Poll until something is true; False when the limit passes first."""
    deadline = time.monotonic() + limit_s
    while not true():
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_S)
    return True


def server_environment() -> dict[str, str]:
    """Return the little that a server needs of our environment; no locale, no secrets."""
    return {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "TZ": "UTC"}


def _fed(content: bytes) -> IO[bytes]:
    """Return a file that yields the content and then ends, with no name on disk and no pipe to fill."""
    file = tempfile.TemporaryFile()  # noqa: SIM115
    file.write(content)
    file.seek(0)
    return file


def _tie_to_parent(last_signal: signal.Signals) -> Callable[[], None] | None:
    """Return what a child runs between fork and exec, after it took its account (which clears the tie)."""
    if LIBC is None:
        return None
    prctl, number, parent = LIBC.prctl, int(last_signal), os.getpid()

    def tie() -> None:
        prctl(PR_SET_PDEATHSIG, number, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)

    return tie
