"""All processes of one rank, however they try to get lost.

A rank is found by its status file, what it started by descent, and what left its
session by the mark in its environment. A process that was seen once is never
forgotten, so a child stays known when its parent has died and it belongs to init.
"""

import os
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path

from middlewatch_agent import shim
from middlewatch_agent.collect import live_ranks
from middlewatch_agent.hooksocket import SOCKET_NAME
from middlewatch_agent.launcher import processes
from middlewatch_agent.ranks import procfs
from middlewatch_agent.ranks.procfs import Process
from middlewatch_agent.ranks.status import RankStatus

GONE = frozenset("ZX")
DEAD = "X"

Key = tuple[int, int]
"""Pid and start time: together they name one process for ever."""


class Tree:
    """The processes of one rank; `states` holds the kernel's letter of each at the first and at the last look."""

    def __init__(self, rank: int) -> None:
        """Begin with no process."""
        self.rank = rank
        self.shim: Key | None = None
        self.states: dict[Key, tuple[str, str]] = {}

    def add(self, process: Process) -> None:
        """Note a process."""
        key = (process.pid, process.start_ticks)
        self.states[key] = (self.states.get(key, (process.state, ""))[0], process.state)

    def living(self) -> list[Process]:
        """Look at every known process again, the shim left out; give those that live (a zombie does not)."""
        found = [process for key in list(self.states) if (process := self._again(key)) and key != self.shim]
        return [process for process in found if process.state not in GONE]

    def living_shim(self) -> list[Process]:
        """Give the shim while it lives."""
        found = self._again(self.shim) if self.shim else None
        return [found] if found and found.state not in GONE else []

    def _again(self, key: Key) -> Process | None:
        now = procfs.look(key[0])
        same = now is not None and now.start_ticks == key[1]
        self.states[key] = (self.states[key][0], now.state if now and same else DEAD)
        return now if same else None


class Forest:
    """The trees of an attempt's ranks on one node; without `ranks` those of all."""

    def __init__(
        self,
        state_dir: Path,
        run: str,
        attempt: int,
        ranks: Collection[int] | None = None,
        found: Callable[[], Iterable[RankStatus]] = tuple,
    ) -> None:
        """Look in the state folder of the node's agent; `found` gives ranks that have no status file."""
        self.trees: dict[int, Tree] = {}
        self._state_dir = state_dir
        self._run = run
        self._attempt = attempt
        self._ranks = ranks
        self._found = found

    def living(self) -> list[Process]:
        """Find what was started meanwhile and give all that lives, shims left out."""
        for status in (*live_ranks(self._state_dir / "ranks", self._run, self._attempt), *self._found()):
            if (status.run, status.attempt) == (self._run, self._attempt) and self._wanted(status.rank):
                self._add(status)
        sockets = frozenset({str(self._state_dir / SOCKET_NAME)})
        for marked in processes.of_run(self._run, sockets, self._attempt):
            if self._wanted(marked.rank) and (found := procfs.look(marked.pid)):
                self._tree(marked.rank).add(found)
        self._add_descendants()
        return [process for tree in self.trees.values() for process in tree.living()]

    def shims(self) -> list[Process]:
        """Give the shims that live."""
        return [process for tree in self.trees.values() for process in tree.living_shim()]

    def _wanted(self, rank: int) -> bool:
        return self._ranks is None or rank in self._ranks

    def _tree(self, rank: int) -> Tree:
        return self.trees.setdefault(rank, Tree(rank))

    def _add(self, status: RankStatus) -> None:
        tree, found = self._tree(status.rank), procfs.look(status.pid)
        if found and found.start_ticks == status.start_ticks:
            tree.add(found)
        keeper = self._shim(status)
        if keeper:
            tree.shim = (keeper.pid, keeper.start_ticks)
            tree.add(keeper)

    def _shim(self, status: RankStatus) -> Process | None:
        """The rank's shim, by what only its own environment holds: its pid may be a stranger's by now."""
        path = self._state_dir / "ranks" / f"{status.run}.{status.attempt}.{status.rank}.json"
        if not status.shim_pid:
            return None
        named = processes.environ_of(status.shim_pid).get(shim.STATUS.encode())
        return procfs.look(status.shim_pid) if named == str(path).encode() else None

    def _add_descendants(self) -> None:
        children = _children()
        for tree in self.trees.values():
            waiting = [key[0] for key, (_, state) in tree.states.items() if state != DEAD]
            while waiting:
                for child in children.pop(waiting.pop(), []):
                    tree.add(child)
                    waiting.append(child.pid)


def _children() -> dict[int, list[Process]]:
    """Every process of this machine under the pid of its parent."""
    found: dict[int, list[Process]] = {}
    for process in _all():
        found.setdefault(process.parent, []).append(process)
    return found


def _all() -> Iterator[Process]:
    for entry in os.listdir("/proc"):  # noqa: PTH208 (called in a tight loop)
        if entry.isdigit() and (process := procfs.look(int(entry))):
            yield process
