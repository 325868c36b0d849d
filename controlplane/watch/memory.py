"""Keep reducers in memory between sweeps.

A reducer is taken out while it works and put back after its commit, so one whose
transaction failed is dropped and read again. It is used only when the stored
version is the one it was kept under: another worker may have been faster.
"""

import threading
from typing import Generic, TypeVar

from controlplane.runs.models import Machine

MAX_KEPT = 1_000

R = TypeVar("R")


class Memory(Generic[R]):
    """Reducers of this process by the name of their machine; safe between threads."""

    def __init__(self) -> None:
        """Begin with none."""
        self._kept: dict[str, tuple[int, R]] = {}
        self._lock = threading.Lock()

    def take(self, machine: Machine) -> R | None:
        """Take out the reducer of this machine, or None when ours is not of the stored version."""
        with self._lock:
            version, reducer = self._kept.pop(machine.name, (-1, None))
        return reducer if version == machine.version else None

    def keep(self, machine: Machine, reducer: R) -> None:
        """Keep a reducer whose state is stored; the one kept longest makes room."""
        with self._lock:
            while len(self._kept) >= MAX_KEPT:
                del self._kept[next(iter(self._kept))]
            self._kept[machine.name] = (machine.version, reducer)

    def forget(self) -> None:
        """Drop everything, as a new process would begin."""
        with self._lock:
            self._kept.clear()
