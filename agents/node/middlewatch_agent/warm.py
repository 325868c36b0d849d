"""Fork ranks from a process that has imported their libraries already.

Importing torch and its checkpoints costs seconds of processor time for every
rank, at the one moment when everybody waits. This process imports once, then
forks a shim and a rank for each line that it reads:

    python -m middlewatch_agent.warm MODULE…

It prints `ready` when it has imported, and ends with its standard input, that is,
with the launcher; the ranks do not. It refuses to fork when an import started
threads, for a fork would lose them.
"""

import ctypes
import importlib
import json
import os
import runpy
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from middlewatch_agent import shim

SHOWN = "MIDDLEWATCH_SHOWN"
SHOWN_BYTES = 4096
"""Room in the environment that the kernel shows for this process; see `Shown`."""
READY = "ready\n"


class Shown:
    """The environment that `/proc` shows of a process that was forked but not executed.

    The kernel shows the memory where the environment lay when the program was
    executed. One variable there is all filling, and what a rank has to show is
    written over it.
    """

    def __init__(self) -> None:
        """Find the filling before the environment changes."""
        getenv = ctypes.CDLL(None).getenv
        getenv.restype, getenv.argtypes = ctypes.c_void_p, (ctypes.c_char_p,)
        self._place: int | None = getenv(SHOWN.encode())

    def show(self, environ: Mapping[str, str]) -> None:
        """Show our own variables and the rank. Raises ValueError where they do not fit."""
        names = (name for name in environ if name.startswith("MIDDLEWATCH_") or name == "RANK")
        text = b"".join(b"\0" + f"{name}={environ[name]}".encode() for name in names)
        if self._place is None or len(text) >= SHOWN_BYTES:
            raise ValueError("the environment of the rank does not fit")
        ctypes.memmove(self._place, text.ljust(SHOWN_BYTES, b"\0"), SHOWN_BYTES)


def script(command: Sequence[str], shown: Shown) -> shim.Become:
    """Become a Python script, as `python SCRIPT ARGUMENTS…` would."""

    def become(ready: int) -> None:
        sys.argv = list(command[1:])
        sys.path[0] = str(Path(command[1]).resolve().parent)
        shown.show(os.environ)
        os.close(ready)
        runpy.run_path(command[1], run_name="__main__")
        sys.exit(0)

    return become


def shepherd(order: Mapping[str, object], shown: Shown) -> NoReturn:
    """Be the shim of one rank. The rank returns from here too, through `SystemExit`."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    log = os.open(str(order["log"]), os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.chdir(str(order["folder"]))
    os.environ.clear()
    os.environ.update(dict(order["environ"]))  # type: ignore[call-overload]
    shown.show(os.environ)
    command = [str(word) for word in order["command"]]  # type: ignore[attr-defined]
    os._exit(shim.supervise(str(order["status"]), str(order["log"]), script(command, shown)))


def main(modules: Sequence[str]) -> None:
    """Import, then fork for every order until the launcher is gone."""
    shown = Shown()
    for module in modules:
        importlib.import_module(module)
    if len(list(Path("/proc/self/task").iterdir())) > 1:
        raise SystemExit("an import has started threads: ranks cannot be forked from here")
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    sys.stdout.write(READY)
    sys.stdout.flush()
    for line in iter(sys.stdin.readline, ""):
        if os.fork() == 0:
            shepherd(json.loads(line), shown)


if __name__ == "__main__":
    main(sys.argv[1:])
