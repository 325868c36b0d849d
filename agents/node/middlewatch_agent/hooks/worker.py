"""Let the node's agent ask this process for its stacks and collectives, even while it hangs.

Torch's WorkerServer answers from a C++ thread on a unix socket; it needs no ptrace
and gives the Flight Recorder as JSON. Beside it `faulthandler` answers SIGUSR1
from the signal handler, which works while C code holds the interpreter. Together
their answers tell waiting, locked and frozen apart.
"""

import faulthandler
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

STACKS_SUFFIX = ".stacks"
"""The file beside the worker socket that SIGUSR1 makes the process write its stacks to."""
_UNIX_SOCKET = -1

_held: list[Any] = []


def start(socket_path: str) -> bool:
    """Serve on `socket_path` until the process ends; True where torch's server runs too.

    The server needs torch imported; without it only SIGUSR1 is answered. Never raises.
    """
    try:
        Path(socket_path).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        answer_sigusr1(socket_path + STACKS_SUFFIX)
        return "torch" in sys.modules and _serve(socket_path)
    except Exception:  # noqa: BLE001 (no stacks are better than no training)
        return False


def answer_sigusr1(path: str) -> None:
    """Write the stacks of all threads to `path` on SIGUSR1, unless the program uses that signal itself."""
    if signal.getsignal(signal.SIGUSR1) not in {signal.SIG_DFL, None}:
        return
    descriptor = os.open(path, os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_WRONLY | os.O_NOFOLLOW, 0o600)
    _held.append(descriptor)
    faulthandler.register(signal.SIGUSR1, file=descriptor, all_threads=True)


def _serve(socket_path: str) -> bool:
    from torch._C._distributed_c10d import _WorkerServer  # noqa: PLC0415 (torch only where it is used)

    with suppress(FileNotFoundError):
        os.unlink(socket_path)  # noqa: PTH108
    _held.append(_WorkerServer(socket_path, _UNIX_SOCKET))
    os.chmod(socket_path, 0o600)  # noqa: PTH101
    return True
