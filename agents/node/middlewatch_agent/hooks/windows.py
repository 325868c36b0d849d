"""Split each rank's step time into computing, waiting for others and waiting for data.

All ranks of a synchronous job step at the same pace, so step time cannot tell the
slow one. The slow one is the rank that waits least for the others. Medians over a
window of steps keep single pauses out.
"""

from dataclasses import dataclass, field
from statistics import median
from typing import Any

WINDOW_STEPS = 10


@dataclass(slots=True)
class Window:
    """Collects the parts of every step, in seconds, until `steps` of them are together."""

    steps: int = WINDOW_STEPS
    _first: int | None = None
    _compute: list[float] = field(default_factory=list)
    _wait: list[float] = field(default_factory=list)
    _data: list[float] = field(default_factory=list)

    def add(self, step: int, *, duration: float, wait: float, data: float) -> dict[str, Any] | None:
        """Take one step in; gives the data of a `rank.window` event when the window is full."""
        if self._first is None:
            self._first = step
        self._compute.append(max(0.0, duration - wait - data))
        self._wait.append(wait)
        self._data.append(data)
        return self._close(step) if len(self._compute) >= self.steps else None

    def _close(self, step: int) -> dict[str, Any]:
        done = {
            "first_step": self._first,
            "last_step": step,
            "compute_ms": _ms(self._compute),
            "wait_ms": _ms(self._wait),
            "data_ms": _ms(self._data),
        }
        self._first = None
        for part in (self._compute, self._wait, self._data):
            part.clear()
        return done


def _ms(seconds: list[float]) -> float:
    return round(median(seconds) * 1000, 3)
