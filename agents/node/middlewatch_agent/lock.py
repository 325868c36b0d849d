"""One agent per state folder: two of them would tear each other's spool and socket."""

import fcntl
import os
from pathlib import Path

LOCK_FILE = "agent.lock"


class LockedError(Exception):
    """Another agent works in this folder."""


def lock(state_dir: Path) -> int:
    """Take the folder for this process; the kernel gives it back however the process ends.

    Returns the descriptor to keep open; raises LockedError naming the holder's pid.
    """
    path = state_dir / LOCK_FILE
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        holder = os.read(descriptor, 32).decode(errors="replace").strip()
        os.close(descriptor)
        raise LockedError(f"another agent (pid {holder or 'unknown'}) works in {state_dir}") from error
    os.ftruncate(descriptor, 0)
    os.write(descriptor, f"{os.getpid()}\n".encode())
    return descriptor


def holder(state_dir: Path) -> int | None:
    """Give the pid of the agent that works in a folder, or None."""
    try:
        os.close(lock(state_dir))
    except LockedError as error:
        digits = "".join(char for char in str(error).partition("pid ")[2].partition(")")[0] if char.isdigit())
        return int(digits or 0)
    except OSError:
        return None
    return None
