"""Save and load through torch's distributed checkpoint, and say truthfully how far a save is.

A save counts as complete when its future is done, not when `async_save` returns:
an interrupted save leaves shards without `.metadata`. Asynchronous saves talk over
a gloo group of their own, for on the training's group their collectives would mix
with those of the gradients and the job would abort.
"""

import threading
import time
import warnings
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch.distributed as dist
from torch.distributed.checkpoint import state_dict_loader as loader
from torch.distributed.checkpoint import state_dict_saver as saver

from middlewatch_agent.dcp import verdict
from middlewatch_agent.hooks import retention
from middlewatch_agent.hooks import state as training_state

if TYPE_CHECKING:
    from middlewatch_agent.hooks.watch import Watch

MAX_WHY_CHARS = 500


class Checkpoints:
    """The checkpoints of one run in `<folder>/step-<N>/`. Every method is called by all ranks together.

    `state` is a dict of modules, optimizers, and plain values or tensors, as DCP
    takes it. Without a folder nothing is saved, and a warning says so once.
    """

    def __init__(self, watch: "Watch") -> None:
        """Use the folder that the launcher named, if it did."""
        place = watch.place
        self.folder = Path(place.checkpoint_dir) if place.checkpoint_dir else None
        self.keep = retention.KEEP
        self._watch = watch
        self._resume_step = place.resume_step
        self._first = place.rank == 0
        self._own_group: dist.ProcessGroup | None = None
        self._pending: _Saving | None = None
        self._warned = False

    def use(self, folder: str | None = None, *, keep: int = retention.KEEP) -> None:
        """Use `folder` where the launcher named none; keep the newest `keep` complete checkpoints (at least 2)."""
        self.keep = keep
        if self.folder is None and folder:
            self.folder = Path(folder)

    def load(self, state: dict[str, Any]) -> int:
        """Fill `state` from the restore point and return its step; 0 means from the beginning.

        The restore point is the launcher's choice; without one it is the newest
        complete checkpoint of the folder. Raises what DCP raises.
        """
        self._group()
        with self._watch.phase("restore"):
            step = self._restore_step()
            if step and self.folder is not None:
                self._load(state, verdict.path_of(self.folder, step), step)
        facts = {"step": step, "world_size": self._watch.place.world_size, **training_state.describe(state)}
        self._watch.send("rank.resume", facts)
        return step

    def save(self, state: Mapping[str, Any], step: int) -> None:
        """Save and wait until it is complete. Raises what DCP raises, after reporting it."""
        if self._nowhere() or self.folder is None:
            return
        with self._watch.phase("save"):
            self.wait()
            saving = _Saving(self, verdict.path_of(self.folder, step), step)
            try:
                saver.save(dict(state), checkpoint_id=saving.path, **self._talk())
            except BaseException as error:
                saving.failed(error)
                raise
            saving.blocked()
            saving.complete()

    def async_save(self, state: Mapping[str, Any], step: int) -> Future[Any] | None:
        """Copy `state` and save it beside the training; the future is done when it is complete.

        A save still under way is waited for first, on all ranks alike. A save that
        fails after the copy is reported and does not end the training; one that cannot
        even copy raises, since the ranks no longer agree about what is under way.
        """
        if self._nowhere() or self.folder is None:
            return None
        if self._pending is not None and not self._pending.ended.is_set():
            with self._watch.phase("save"):
                self.wait()
        saving = _Saving(self, verdict.path_of(self.folder, step), step)
        try:
            pending: Future[Any] = saver.async_save(dict(state), checkpoint_id=saving.path, **self._talk())  # type: ignore[assignment]
        except BaseException as error:
            saving.failed(error)
            raise
        saving.blocked()
        self._pending = saving
        pending.add_done_callback(saving.over)
        return pending

    def wait(self) -> None:
        """Wait for the save under way, if any; how it ended was reported already."""
        if self._pending is not None:
            self._pending.ended.wait()
            self._pending = None

    def report(self, step: int, path: Path, state: str, **facts: Any) -> None:
        """Send a `checkpoint` event; the first rank speaks for all."""
        if self._first:
            data = {"step": step, "tier": "persistent", "path": str(path), "format": "dcp", "state": state}
            self._watch.send("checkpoint", {**data, **facts})

    def prepare(self, path: Path) -> None:
        """Take the marker of an older save away before its shards are overwritten.

        No rank writes before the first one, which plans the save, has been here.
        """
        if self._first:
            (path / verdict.MARKER).unlink(missing_ok=True)

    def finish(self, path: Path, step: int, **facts: Any) -> None:
        """Report a complete save by what lies on disk, and delete what is no longer needed."""
        if not self._first or self.folder is None:
            return
        found = verdict.judge(self.folder, step)
        sizes = {"bytes": found.bytes, "files": found.files, "expected_files": found.expected_files}
        why = {} if found.state == "complete" else {"why": found.why}
        self.report(step, path, found.state, **sizes, **facts, **why)
        for gone in retention.prune(self.folder, keep=self.keep):
            self.report(gone.step, Path(gone.path), "deleted")

    def _nowhere(self) -> bool:
        if self.folder is None and self._first and not self._warned:
            self._warned = True
            warnings.warn("no checkpoint folder is known: nothing is saved", stacklevel=3)
        return self.folder is None

    def _restore_step(self) -> int:
        if self._resume_step is not None or self.folder is None:
            return self._resume_step or 0
        complete = (step for step in verdict.steps(self.folder) if verdict.judge(self.folder, step).state == "complete")
        return next(complete, 0)

    def _load(self, state: dict[str, Any], path: Path, step: int) -> None:
        began = time.monotonic()
        training_state.prime(state)
        loader.load(state, checkpoint_id=path, **self._talk())
        self.report(step, path, "restored", duration_ms=_ms(began))

    def _talk(self) -> dict[str, Any]:
        group = self._group()
        return {"process_group": group} if group is not None else {"no_dist": True}

    def _group(self) -> dist.ProcessGroup | None:
        if self._own_group is None and dist.is_available() and dist.is_initialized():
            self._own_group = dist.new_group(backend="gloo")
        return self._own_group


class _Saving:
    """One save on its way, on one rank."""

    def __init__(self, owner: Checkpoints, path: Path, step: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.path = path
        self.ended = threading.Event()
        self._owner = owner
        self._step = step
        self._clock = clock
        self._began = clock()
        self._blocking_ms: float | None = None
        owner.prepare(path)
        owner.report(step, path, "saving")

    def blocked(self) -> None:
        """Note that the training may go on from here."""
        self._blocking_ms = _ms(self._began, self._clock())

    def over(self, future: Future[Any]) -> None:
        """Called when an asynchronous save is done, well or not."""
        try:
            error = future.exception()
            if error is None:
                self.complete()
            else:
                self.failed(error)
        finally:
            self.ended.set()

    def complete(self) -> None:
        """Report the end of the save."""
        times = {"blocking_ms": self._blocking_ms, "duration_ms": _ms(self._began, self._clock())}
        self._owner.finish(self.path, self._step, **times)

    def failed(self, error: BaseException) -> None:
        """Report that the save did not come to its end."""
        why = f"{type(error).__name__}: {error}"[:MAX_WHY_CHARS]
        self._owner.report(self._step, self.path, "failed", why=why, duration_ms=_ms(self._began, self._clock()))


def _ms(began: float, now: float | None = None) -> float:
    return round(((time.monotonic() if now is None else now) - began) * 1000, 1)
