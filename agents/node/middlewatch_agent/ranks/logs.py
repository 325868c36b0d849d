"""Follow the logs of the live ranks and tell the lines that matter."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from middlewatch_agent.ranks.status import RankStatus
from middlewatch_agent.readers import prefilter
from middlewatch_agent.readers.base import Bucket, Line, Outlet
from middlewatch_agent.readers.tail import TailReader

NOTE = "ranklog:"
LINES_BURST = 50.0

Emit = Callable[[dict[str, Any], Mapping[str, str | None]], None]


class RankLogs:
    """Lives in the loop's thread; call `read` at an interval."""

    def __init__(self, emit: Emit, note: Callable[[str], str | None]) -> None:
        """Prepare; `emit(event, notes)` spools, `note(key)` gives a remembered fact."""
        self._emit = emit
        self._note = note
        self._readers: dict[str, TailReader] = {}

    def follow(self, live: Mapping[str, RankStatus]) -> None:
        """Follow exactly these ranks; the others are read a last time."""
        wanted = {status.key: status for status in live.values() if status.log}
        for key in [key for key in self._readers if key not in wanted]:
            self._readers.pop(key).read()
            self._emit({}, {NOTE + key: None})
        for key, status in wanted.items():
            if key not in self._readers:
                self._readers[key] = self._open(key, status)

    def read(self) -> None:
        """Take what was added."""
        for reader in self._readers.values():
            reader.read()

    def _open(self, key: str, status: RankStatus) -> TailReader:
        def emit(line: Line) -> None:
            event = {
                "kind": "rank.log", "at_ms": line.at_ms, "run": status.run, "attempt": status.attempt,
                "rank": status.rank, "data": {"stream": "log", "text": line.text},
            }  # fmt: skip
            self._emit(event, {NOTE + key: line.cursor})

        outlet = Outlet("rank", prefilter.rank, emit, Bucket(burst=LINES_BURST))
        return TailReader("rank", Path(str(status.log)), outlet, cursor=self._note(NOTE + key), from_start=True)
