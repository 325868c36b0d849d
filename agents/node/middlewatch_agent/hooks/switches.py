"""Learn that somebody wants a save, or an end, now: switches are files that the node's agent lays down.

A file is the whole protocol: looking for one costs a system call, needs no thread
in the training and works while the agent is dead. The time of a switch file is the
moment at which it loses its force, and its name holds the attempt, so none is ever
obeyed late or by another attempt.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from middlewatch_agent.hooks.meetings import Meetings
from middlewatch_agent.hooks.place import Place

FOLDER = "switches"
SAVE = "save"
KILL = "kill"
ACKNOWLEDGED = ".ack."
LOOK_S = 0.1
"""A rank alone looks no more often than this, however fast its steps are."""


def file_of(state_dir: Path, run: str, attempt: int, what: str) -> Path:
    """Where a switch of an attempt lies in the state folder of a node's agent."""
    return state_dir / FOLDER / f"{run}.{attempt}.{what}"


class Switches:
    """The switches of one rank's attempt, as its own node shows them."""

    def __init__(self, place: Place, clock: Callable[[], float]) -> None:
        """Look beside the agent's socket; without one nothing is ever armed."""
        self._place = place
        self._clock = clock
        self._paths: dict[str, str] = {}
        if place.socket:
            node = Path(place.socket).parent
            self._paths = {what: str(file_of(node, place.run, place.attempt, what)) for what in (KILL, SAVE)}
        self._used: dict[str, tuple[int, int]] = {}
        self._taken: set[str] = set()
        self._look_at: dict[str, float] = {}
        self._meetings: Meetings | None = None

    @property
    def stopping(self) -> bool:
        """Whether this rank has taken a kill switch."""
        return KILL in self._taken

    def wanted(self, what: str, step: int) -> bool:
        """Whether this rank takes the switch now, after `step`; a save is wanted once, an end for ever."""
        if not self._paths:
            return False
        taken = self._together(step) if self._place.world_size > 1 and "torch" in sys.modules else self._alone(what)
        if taken:
            self._taken.add(taken)
            self._acknowledge(taken, step)
        if what not in self._taken:
            return False
        if what == SAVE:
            self._taken.discard(SAVE)
        return True

    def _alone(self, what: str) -> str | None:
        now = self._clock()
        if now < self._look_at.get(what, now):
            return None
        self._look_at[what] = now + LOOK_S
        return self._armed(what)

    def _together(self, step: int) -> str | None:
        """Take what all ranks take after this step; nothing before they have found each other."""
        if self._meetings is None:
            store = _store()
            if store is None:
                return None
            name = f"middlewatch/{self._place.run}/{self._place.attempt}"
            leads = self._place.rank == 0
            self._meetings = Meetings(store, leads=leads, name=name, look=self._armed_any, clock=self._clock)
        return self._meetings.attend(step)

    def _armed_any(self) -> str | None:
        return self._armed(KILL) or self._armed(SAVE)

    def _armed(self, what: str) -> str | None:
        """Give the switch if it lies there and was not used before; from now on it counts as used."""
        try:
            found = os.stat(self._paths[what])  # noqa: PTH116 (called in every step)
        except OSError:
            return None
        identity = (found.st_ino, found.st_mtime_ns)
        if identity == self._used.get(what) or found.st_mtime <= time.time():
            return None
        self._used[what] = identity
        return what

    def _acknowledge(self, what: str, step: int) -> None:
        """Tell the agent, where it was this node's that armed the switch."""
        path = Path(self._paths[what])
        with suppress(OSError):
            if path.exists():
                scratch = path.with_name(f".{path.name}.{self._place.rank}")
                scratch.write_text(json.dumps({"step": step}))
                scratch.replace(f"{path}{ACKNOWLEDGED}{self._place.rank}")


def _store() -> Any:
    """The store through which the ranks of the default group found each other, or None."""
    try:
        import torch.distributed as dist  # noqa: PLC0415 (torch only where it is used)
        from torch.distributed.distributed_c10d import _get_default_store  # noqa: PLC0415

        return _get_default_store() if dist.is_initialized() and dist.get_world_size() > 1 else None
    except Exception:  # noqa: BLE001 (no switch is better than no training)
        return None
