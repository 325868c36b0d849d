"""The object that a training loop talks to.

Every method returns at once and swallows its own mistakes: a report is worth less
than a step. Without the environment of a watched rank nothing is sent.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

from middlewatch_agent.hooks.place import Place
from middlewatch_agent.hooks.reporter import Reporter
from middlewatch_agent.hooks.switches import KILL, SAVE, Switches
from middlewatch_agent.hooks.windows import WINDOW_STEPS, Window

if TYPE_CHECKING:
    from torch.nn.parallel import DistributedDataParallel

    from middlewatch_agent.hooks.checkpoints import Checkpoints

PROGRESS_S = 0.1
"""Shortest time between two progress reports of a phase."""


class Phase:
    """A part of the run that is not stepping; its progress replaces that of steps."""

    def __init__(self, watch: "Watch", name: str, facts: dict[str, Any]) -> None:
        """Made by `Watch.phase`."""
        self._watch = watch
        self._name = name
        self._facts = facts
        self._told_at = float("-inf")

    def progress(self, done: float, total: float | None = None) -> None:
        """Say how far the phase is; passed on at most every `PROGRESS_S` seconds, its end always."""
        if total is not None:
            self._facts["total"] = total
        self._facts["done"] = done
        now = self._watch.clock()
        if now - self._told_at >= PROGRESS_S or done == self._facts.get("total"):
            self._told_at = now
            self.tell("progress")

    def tell(self, state: str) -> None:
        """Send the phase in `state`: begin, progress or end."""
        self._watch.send("rank.phase", {"phase": self._name, "state": state, **self._facts})


class Watch:
    """Reports what one rank does. Made by `hooks.attach()`."""

    def __init__(
        self,
        place: Place,
        reporter: Reporter | None,
        *,
        window_steps: int = WINDOW_STEPS,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """Report through `reporter` (None: report nothing); `clock` counts seconds."""
        self.place = place
        self.clock = clock
        self.faults = 0
        self._reporter = reporter
        self._window = Window(window_steps)
        self._began = clock()
        self._elsewhere = self._wait = self._data = 0.0
        self._depth = 0
        self._step = place.resume_step or 0
        self._switches = Switches(place, clock)

    def send(self, kind: str, data: dict[str, Any]) -> None:
        """Report any observation of wire.md."""
        if self._reporter is not None:
            self._reporter.send(kind, data)

    def step(
        self,
        step: int,
        *,
        loss: float | None = None,
        tokens: int | None = None,
        grad_norm: float | None = None,
        lr: float | None = None,
        loss_scale: float | None = None,
        skipped: bool | None = None,
    ) -> None:
        """Say that optimiser step `step` is done; call it once per step on every rank.

        Rank 0 reports the step with its time since the step before (phases left out)
        and whatever numbers are given, which count for the whole run; every rank
        reports a window of medians now and then. Give numbers that are on the host
        already: a tensor on a device would have to be waited for.
        """
        if self._reporter is None:
            return
        self._step = step
        now = self.clock()
        duration = now - self._began - self._elsewhere
        wait, data, self._began = self._wait, self._data, now
        self._elsewhere = self._wait = self._data = 0.0
        if self.place.rank == 0:
            report: dict[str, Any] = {"step": step, "duration_ms": round(duration * 1000, 3)}
            for name, value in (
                ("loss", loss), ("tokens", tokens), ("grad_norm", grad_norm), ("lr", lr),
                ("loss_scale", loss_scale), ("skipped", skipped),
            ):  # fmt: skip
                if value is not None:
                    report[name] = value if type(value) in _NUMBERS else self._number(value)
            self._reporter.send("rank.step", report)
        window = self._window.add(step, duration=duration, wait=wait, data=data)
        if window is not None:
            self._reporter.send("rank.window", {**window, "dropped": self._reporter.dropped})

    def save_wanted(self) -> bool:
        """Whether somebody asked for a checkpoint now: True once, after the same step on all ranks.

        Call it after every step on every rank, once the process group is there. Declare
        `save_now` in the `supports` of launcher.toml.
        """
        return self._switches.wanted(SAVE, self._step)

    def stop_wanted(self) -> bool:
        """Whether this rank shall save and end, as `save_wanted`; from then on always True (`stop_now`).

        End by `hooks.leave`, whose exit code tells this end from a finished training.
        """
        return self._switches.wanted(KILL, self._step)

    @property
    def stopping(self) -> bool:
        """Whether `stop_wanted` has said so."""
        return self._switches.stopping

    @contextmanager
    def phase(
        self, name: str, *, total: float | None = None, unit: str | None = None, deadline_s: float | None = None
    ) -> Iterator[Phase]:
        """Mark a part that is not stepping: init, rendezvous, restore, compile, eval, save, drain, idle."""
        facts = {"total": total, "unit": unit, "deadline_s": deadline_s}
        phase = Phase(self, name, {key: value for key, value in facts.items() if value is not None})
        phase.tell("begin")
        began = self.clock()
        self._depth += 1
        try:
            yield phase
        finally:
            self._depth -= 1
            if self._depth == 0:
                self._elsewhere += self.clock() - began
            phase.tell("end")

    @contextmanager
    def data(self) -> Iterator[None]:
        """Time spent on getting the next batch."""
        began = self.clock()
        try:
            yield
        finally:
            self._data += self.clock() - began

    @contextmanager
    def wait(self) -> Iterator[None]:
        """Time spent in a collective that waits for the other ranks."""
        began = self.clock()
        try:
            yield
        finally:
            self.waited(self.clock() - began)

    def waited(self, seconds: float) -> None:
        """Count seconds of waiting for other ranks into the current step."""
        self._wait += seconds

    def ddp(self, model: "DistributedDataParallel") -> "DistributedDataParallel":
        """Measure how long this rank waits for gradients; see `hooks.ddp` for what is counted. Returns `model`."""
        from middlewatch_agent.hooks import ddp  # noqa: PLC0415 (torch only where it is used)

        return ddp.measure(model, self)

    @cached_property
    def checkpoints(self) -> "Checkpoints":
        """Save and load through torch's distributed checkpoint, with reports."""
        from middlewatch_agent.hooks.checkpoints import Checkpoints  # noqa: PLC0415 (torch only where it is used)

        return Checkpoints(self)

    def close(self) -> None:
        """Wait for a save under way and send what waits; call it at the end of the training."""
        if "checkpoints" in self.__dict__:
            self.checkpoints.wait()
        if self._reporter is not None:
            self._reporter.close()

    def _number(self, value: Any) -> float | None:
        try:
            return float(value)
        except Exception:  # noqa: BLE001 (a report is worth less than a step)
            self.faults += 1
            return None


_NUMBERS = frozenset({int, float, bool})
