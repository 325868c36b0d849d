"""What all readers of lines share: a verdict per line, a limit on their number, and liveness.

"No line" and "cannot read" look alike from afar but mean opposite things, so a
reader tells when it last looked, whether or not there was something to see.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

LINES_PER_S = 5.0
LINES_BURST = 200.0
MAX_LINE = 2048
MAX_JUDGED = 16 << 10
"""Characters of a line that are looked at: a training may print a tensor on one."""


class Line(NamedTuple):
    """A line worth telling; `gap` when lines before it were lost."""

    source: str
    text: str
    at_ms: int
    cursor: str
    gap: bool = False


class Reader(Protocol):
    """A source of lines, driven by the loop."""

    source: str

    def fileno(self) -> int:
        """Descriptor to wait for, or -1 when `read` must be called now and then."""

    def read(self) -> None:
        """Take what is there; never blocks."""

    def liveness(self) -> dict[str, object]:
        """Give `{ok, last_read_age_s}` for the heartbeat."""

    def close(self) -> None:
        """Release the source."""


@dataclass(slots=True)
class Bucket:
    """Let a burst of lines through and then a few per second; count the others."""

    per_s: float = LINES_PER_S
    burst: float = LINES_BURST
    suppressed: int = 0
    _left: float = field(init=False)
    _at: float | None = None

    def __post_init__(self) -> None:
        """Start full."""
        self._left = self.burst

    def admit(self, now: float) -> bool:
        """Say whether one more line may pass at `now` (monotonic seconds)."""
        if self._at is not None:
            self._left = min(self.burst, self._left + (now - self._at) * self.per_s)
        self._at = now
        if self._left < 1.0:
            self.suppressed += 1
            return False
        self._left -= 1.0
        return True


@dataclass(slots=True)
class Outlet:
    """Pass on the lines of one source that matter, at a bearable rate.

    `emit` spools a line together with the place up to which the source was read.
    A gap stays due until a line that passes can carry it.
    """

    source: str
    relevant: Callable[[str], bool]
    emit: Callable[[Line], None]
    bucket: Bucket = field(default_factory=Bucket)
    gap: bool = False

    def offer(self, text: str, at_ms: int, cursor: str) -> None:
        """Judge one line by its beginning: whoever writes it must not decide how long that takes."""
        if not self.relevant(text[:MAX_JUDGED]):
            return
        if not self.bucket.admit(time.monotonic()):
            self.gap = True
            return
        self.emit(Line(self.source, text[:MAX_LINE], at_ms, cursor, self.gap))
        self.gap = False


@dataclass(slots=True)
class Liveness:
    """When a source was last looked at, and whether that worked."""

    ok: bool = True
    looked_at: float = field(default_factory=time.monotonic)

    def looked(self, *, ok: bool = True) -> None:
        """Note a look at the source."""
        self.ok = ok
        if ok:
            self.looked_at = time.monotonic()

    def told(self) -> dict[str, object]:
        """Give the heartbeat's entry."""
        return {"ok": self.ok, "last_read_age_s": round(time.monotonic() - self.looked_at, 1)}
