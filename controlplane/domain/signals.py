"""The typed observation that every reducer takes in."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal:
    """One event of the wire vocabulary together with when and from whom it came.

    `received` is the control plane's clock in seconds since the epoch (virtual in
    a replay); `at_ms` is the sender's clock and only orders events of one process.
    """

    kind: str
    received: float
    at_ms: int
    node: str
    incarnation: str = ""
    run: str | None = None
    attempt: int | None = None
    rank: int | None = None
    data: Mapping[str, Any] = field(default_factory=dict)

    @property
    def said_ms(self) -> int:
        """Milliseconds, no later than it came: orders what a clock said that ran ahead and was then set right."""
        return min(self.at_ms, round(self.received * 1000))
