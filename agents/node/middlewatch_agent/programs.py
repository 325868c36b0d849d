"""Run one of this node's own programs, bounded in time and in what it may say."""

import os
import select
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

CHUNK_BYTES = 64 << 10
LOOK_S = 0.05
LAST_CHUNKS = 64
KILL_WAIT_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """How it ended: `exit_code` None says that it did not end in time, negative that a signal ended it."""

    exit_code: int | None
    tail: str


def run(command: Sequence[str], *, within_s: float, tail_bytes: int, folder: Path | None = None) -> Ran:
    """Run a program without a shell; what it left of its session is killed. Raises OSError where it cannot start."""
    process = subprocess.Popen(
        list(command), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        start_new_session=True, cwd=folder,
    )  # fmt: skip
    heard = _Tail(process, tail_bytes)
    deadline = time.monotonic() + within_s
    while process.poll() is None and time.monotonic() < deadline:
        heard.listen(LOOK_S)
    exit_code = process.poll()
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    heard.finish()
    with suppress(subprocess.TimeoutExpired):  # one that hangs in the kernel is left to it
        process.wait(KILL_WAIT_S)
    return Ran(exit_code=exit_code, tail=heard.text())


class _Tail:
    """The end of what a process says; what went before is read and forgotten."""

    def __init__(self, process: "subprocess.Popen[bytes]", keep_bytes: int) -> None:
        if process.stdout is None:
            raise ValueError("the output of the process is not ours")
        self._out = process.stdout
        self._keep_bytes = keep_bytes
        self._kept = bytearray()
        os.set_blocking(self._out.fileno(), False)

    def listen(self, seconds: float) -> bool:
        """Wait so long for a piece; False when there was none."""
        heard = select.select([self._out], [], [], seconds)[0]
        try:
            piece = os.read(self._out.fileno(), CHUNK_BYTES) if heard else b""
        except BlockingIOError:
            piece = b""
        if heard and not piece:  # closed: the rest of the time it says nothing
            time.sleep(seconds)
        self._kept += piece
        del self._kept[: -self._keep_bytes]
        return bool(piece)

    def finish(self) -> None:
        """Read what still waits, but not for ever: a child of the process may go on talking."""
        for _ in range(LAST_CHUNKS):
            if not self.listen(0.0):
                break
        self._out.close()

    def text(self) -> str:
        return self._kept.decode(errors="replace")
