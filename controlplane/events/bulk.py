"""Append to a log that has one writer, each batch with an arrival time of its own.

A replay plays a night in a minute. It decides about numbers and identities exactly as
ingest does, but keeps the streams in memory and copies many moments at once; nobody
else may append meanwhile.
"""

from collections.abc import Collection
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from middlewatch_wire import Decoded

from controlplane.events import streams
from controlplane.events.log import COPY, Appended, greeting, lines
from controlplane.events.streams import Streams


class BulkLog:
    """Takes batches in order of arrival and writes them when told to."""

    def __init__(self, *, dropped: Collection[str] = ()) -> None:
        """Begin with an empty log; events of the kinds in `dropped` count as received and are not written."""
        self._streams = Streams([])
        self._dropped = frozenset(dropped)
        self._lines: list[bytes] = []
        self._newest: datetime | None = None

    def take(self, batch: Decoded, at: datetime, at_s: float) -> Appended:
        """Take a batch that arrived `at` (`at_s` since the epoch); it is durable after the next `write` and commit."""
        self._newest = at
        stream, refused = self._streams.admit(batch, at_s)
        if refused is streams.Refusal.SUPERSEDED:
            return Appended(stream.ack, refused=refused)
        if refused is not None:
            batch = greeting(batch)
        fresh = stream.take(batch, at_s)
        kept = [event for event in fresh if event.kind not in self._dropped]
        if kept:
            self._lines += lines(_text(at), batch, kept)
        return Appended(stream.ack, fresh, refused)

    def write(self, cursor: Any) -> None:
        """Write what was taken since the last call; part of the caller's transaction."""
        if self._newest is None:
            return
        if self._lines:
            with cursor.copy(COPY) as copy:
                copy.write(b"".join(self._lines))
        cursor.execute(streams.WRITE, self._streams.arguments(self._newest))
        self._lines, self._newest = [], None


@lru_cache(maxsize=64)
def _text(at: datetime) -> bytes:
    return at.astimezone(UTC).isoformat().encode()
