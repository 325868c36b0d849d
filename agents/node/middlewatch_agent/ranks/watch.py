"""Tell the start and the end of every rank exactly once, in whatever life of the agent it is noticed.

A shim writes down how its rank ended, and inotify brings that within a
millisecond. A shim that was itself killed writes nothing; the end of its process
(pidfd) is what remains, and then nobody knows the exit code.
"""

import logging
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from middlewatch_agent.loop import Loop
from middlewatch_agent.ranks import procfs
from middlewatch_agent.ranks.inotify import FolderWatch
from middlewatch_agent.ranks.status import RankStatus, read
from middlewatch_agent.readers.base import Liveness
from middlewatch_agent.readers.tail import tail

log = logging.getLogger(__name__)

RESCAN_S = 10.0
POLL_S = 0.25  # only where inotify has no room for us
GRACE_S = 0.3  # for a shim to write down the end that we saw first
KEEP_S = 3 * 24 * 3600.0
MAX_FILES = 4096
ADOPTED = "pattern-"

EmitOnce = Callable[[str, Sequence[dict[str, Any]]], bool]


class RanksWatch:
    """Lives in the loop's thread. `emit_once(key, events)` spools events under a key that counts once."""

    def __init__(
        self,
        folder: Path,
        loop: Loop,
        *,
        node: str,
        emit_once: EmitOnce,
        forget: Callable[[str], None],
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        """Prepare to watch `ranks/`; `changed` is called when the set of live ranks changed."""
        self.live: dict[str, RankStatus] = {}
        self._folder = folder
        self._loop = loop
        self._node = node
        self._emit_once = emit_once
        self._forget = forget
        self._changed = changed
        self._done: dict[str, RankStatus] = {}
        self._pidfds: dict[str, int] = {}
        self._bad: dict[str, int] = {}
        self._liveness = Liveness()
        self._watch: FolderWatch | None = None

    def start(self) -> None:
        """Look at what is there and wait for more."""
        try:
            self._watch = FolderWatch(self._folder)
            self._loop.watch(self._watch.fileno(), self._read)
        except OSError as error:
            log.warning("Watching %s by polling: %s", self._folder, error)
        self._loop.every(RESCAN_S if self._watch else POLL_S, self.scan)
        self.scan()

    def scan(self) -> None:
        """Look at every status file."""
        try:
            names = [entry.name for entry in os.scandir(self._folder)]
        except OSError as error:
            log.warning("The ranks cannot be read: %s", error)
            self._liveness.looked(ok=False)
            return
        self._liveness.looked()
        for name in self._done.keys() - set(names):
            del self._done[name]
        for name in sorted(set(names) - self._done.keys())[:MAX_FILES]:
            self._look(name)
        for name, status in list(self._done.items()):
            self._prune(name, status)

    def processes(self) -> list[dict[str, Any]]:
        """Give the `ranks` of `node.health`; may be called from any thread."""
        told = []
        for status in list(self.live.values()):
            process = procfs.look(status.pid)
            if process is not None:
                told.append(status.process(process))
        return told

    def adopted(self) -> list[RankStatus]:
        """Give the living ranks that have no status file; may be called from any thread."""
        return [status for name, status in list(self.live.items()) if name.startswith(ADOPTED)]

    def adopt(self, status: RankStatus) -> None:
        """Watch a rank that has no status file: one that was found by a pattern."""
        name = f"{ADOPTED}{status.pid}-{status.start_ticks}"
        if name not in self.live:
            self._begin(name, status)

    def reader(self) -> dict[str, object]:
        """Give the heartbeat's entry."""
        return self._liveness.told()

    def close(self) -> None:
        """Stop watching."""
        for name in list(self._pidfds):
            self._unwatch(name)
        if self._watch:
            self._loop.unwatch(self._watch.fileno())
            self._watch.close()
            self._watch = None

    def _read(self) -> None:
        names = self._watch.names() if self._watch else None
        if names is None:
            self.scan()
        for name in names or ():
            self._look(name)

    def _look(self, name: str) -> None:
        if not name.endswith(".json") or name.startswith("."):
            return
        try:
            status = read(self._folder / name)
        except ValueError as error:
            self._complain(name, str(error))
            return
        self._bad.pop(name, None)
        if status is None:
            self._gone(name)
        elif status.ended:
            self._ended(name, status)
        elif name not in self.live:
            self._begin(name, status)

    def _begin(self, name: str, status: RankStatus) -> None:
        self._emit_once(f"started:{status.key}", [status.started(self._node)])
        watched = _watched_pid(status)
        if watched is None or not self._watch_pid(name, watched):
            self._loop.later(GRACE_S, lambda: self._conclude(name, status))
            return
        self.live[name] = status
        self._changed()

    def _ended(self, name: str, status: RankStatus) -> None:
        self._emit_once(f"started:{status.key}", [status.started(self._node)])
        events = [status.exited(self._node)]
        if status.log and (text := tail(Path(status.log))):
            events.append(status.tail(text))
        self._emit_once(f"exited:{status.key}", events)
        self._gone(name)
        self._done[name] = status

    def _watch_pid(self, name: str, pid: int) -> bool:
        try:
            pidfd = os.pidfd_open(pid)
        except OSError:
            return False
        self._pidfds[name] = pidfd
        self._loop.watch(pidfd, lambda: self._process_ended(name))
        return True

    def _process_ended(self, name: str) -> None:
        self._unwatch(name)
        status = self.live.get(name)
        self._look(name)
        if status is not None and name in self.live:
            self._loop.later(GRACE_S, lambda: self._conclude(name, status))

    def _conclude(self, name: str, known: RankStatus) -> None:
        """Tell an end that the shim did not write down, if it really did not."""
        try:
            status = read(self._folder / name) or known
        except ValueError:
            status = known
        if status.key != known.key:
            return
        if not status.ended and _watched_pid(status) is not None:  # the shim is gone and its rank lives on
            self.live.pop(name, None)
            self._begin(name, status)
            return
        self._ended(name, status if status.ended else replace(status, exited_at_ms=time.time_ns() // 1_000_000))

    def _gone(self, name: str) -> None:
        self._unwatch(name)
        if self.live.pop(name, None) is not None:
            self._changed()

    def _unwatch(self, name: str) -> None:
        pidfd = self._pidfds.pop(name, None)
        if pidfd is not None:
            self._loop.unwatch(pidfd)
            os.close(pidfd)

    def _prune(self, name: str, status: RankStatus) -> None:
        """Clear away what ended long ago; a rank without a file (found by a pattern) is only forgotten."""
        if status.exited_at_ms and time.time() - status.exited_at_ms / 1000.0 > KEEP_S:
            path = self._folder / name
            path.unlink(missing_ok=True)
            path.with_name(f"{name}.claim").unlink(missing_ok=True)
            self._done.pop(name, None)
            self._forget(f"started:{status.key}")
            self._forget(f"exited:{status.key}")

    def _complain(self, name: str, why: str) -> None:
        self._bad[name] = self._bad.get(name, 0) + 1
        if self._bad[name] == 1:
            log.warning("The status file %s is unusable: %s", name, why)


def _watched_pid(status: RankStatus) -> int | None:
    """Give whose end to wait for: the shim's, which outlives its rank and writes last, or the rank's.

    None: both are over.
    """
    rank = procfs.look(status.pid)
    if rank is None or rank.state == "Z" or (status.start_ticks not in (None, rank.start_ticks)):
        return None
    return status.shim_pid if status.shim_pid and rank.parent == status.shim_pid else status.pid
