"""The waiting events of this agent, on disk while the disk works and in memory while it does not.

A full or broken disk is itself news that must get out, so it never stops the
agent: events go on in a bounded memory store, the heartbeat says so, and `tick`
returns to the disk as soon as it takes writes again.
"""

import logging
import sqlite3
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

from middlewatch_agent.config import SpoolLimits
from middlewatch_agent.spool.store import Row, Store, Waiting, waiting

log = logging.getLogger(__name__)
Result = TypeVar("Result")

BROKEN = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT})
SLACK = 0.05  # dropped beyond the limit at once, so that a full spool is not trimmed event by event
BATCH_EVENTS = 500
BATCH_BYTES = 512 << 10
TOLD = "told:"


class Flight(NamedTuple):
    """Numbered events of one incarnation that were not acknowledged yet, in order."""

    incarnation: str
    rows: Sequence[Row]


class Spool:
    """Every method may be called from any thread."""

    def __init__(self, path: Path, limits: SpoolLimits, *, incarnation: str) -> None:
        """Open `spool.db`; an unusable one is replaced (broken) or waited for (disk full)."""
        self.path = path
        self.limits = limits
        self.incarnation = incarnation
        self.fault: str | None = None
        self._lock = threading.RLock()
        self._next_seq = 1
        self._flights_in_memory = False
        try:
            self._store = self._open_disk()
        except sqlite3.Error as error:
            self._store = self._open_memory(error)
        self._notes = self._store.notes()

    # ── what producers call ────────────────────────────────────────────────

    def put(self, items: Sequence[Waiting], notes: Mapping[str, str | None] | None = None) -> None:
        """Append events and facts together; when it returns they survive a kill -9."""
        notes = notes or {}
        with self._lock:
            self._write(lambda store: self._put(store, items, notes))
            self._cache(notes)

    def put_once(self, key: str, items: Sequence[Waiting]) -> bool:
        """Append events unless this was called with `key` before, in any life of the agent."""
        key = TOLD + key
        with self._lock:
            if key in self._notes:
                return False
            self.put(items, {key: "1"})
            return True

    def note(self, key: str) -> str | None:
        """Give a remembered fact."""
        with self._lock:
            return self._notes.get(key)

    def notes(self, prefix: str) -> dict[str, str]:
        """Give the remembered facts whose key starts so."""
        with self._lock:
            return {key: value for key, value in self._notes.items() if key.startswith(prefix)}

    def forget_told(self, key: str) -> None:
        """Forget a key of `put_once` whose subject is gone for good."""
        if TOLD + key in self._notes:
            self.put((), {TOLD + key: None})

    # ── what the sender calls ──────────────────────────────────────────────

    def flight(self, front: Callable[[], Sequence[Waiting]]) -> Flight | None:
        """Give what has to be sent next, or None when nothing waits.

        What is in flight comes first, older incarnations before ours. Otherwise
        `front()` (hello, heartbeat) and the oldest events get their numbers.
        """
        with self._lock:
            pending = self._write(self._pending)
            if pending:
                return pending
            first = list(front())
            return self._write(lambda store: self._take_off(store, first))

    def acknowledge(self, incarnation: str, up_to: int) -> None:
        """Delete what the control plane has made durable."""
        with self._lock:
            self._write(lambda store: self._forget(store, incarnation, up_to))

    def renumber(self, incarnation: str) -> None:
        """Let our incarnation send what an older one may not send any more."""
        with self._lock:
            self._write(lambda store: store.unnumber(incarnation))

    def replace(self, incarnation: str, seq: int, item: Waiting) -> None:
        """Put an event that says what was refused in the place of the refused one."""
        with self._lock:
            self._write(lambda store: store.replace_body(incarnation, seq, item))

    # ── state ──────────────────────────────────────────────────────────────

    @property
    def on_disk(self) -> bool:
        """Whether events survive the agent at this moment."""
        return self.fault is None

    def stats(self) -> dict[str, int]:
        """Give `events`, `bytes` and `dropped` as the heartbeat tells them."""
        with self._lock:
            return {"events": self._store.events, "bytes": self._store.bytes, "dropped": sum(self.dropped().values())}

    def dropped(self) -> dict[str, int]:
        """Give the number of dropped events by kind."""
        with self._lock:
            return self._write(lambda store: store.dropped())

    def tick(self) -> None:
        """Go back to the disk if it works again; call it now and then."""
        if self.fault is None:
            return
        with self._lock:
            try:
                self._return_to_disk()
            except sqlite3.Error as error:
                self.fault = str(error)
            else:
                log.warning("The spool is on disk again")

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._store.close()

    # ── inside ─────────────────────────────────────────────────────────────

    def _put(self, store: Store, items: Sequence[Waiting], notes: Mapping[str, str | None]) -> None:
        with store.transaction():
            store.insert(items)
            for key, value in notes.items():
                store.note(key, value)
            self._trim(store)

    def _cache(self, notes: Mapping[str, str | None]) -> None:
        for key, value in notes.items():
            if value is None:
                self._notes.pop(key, None)
            else:
                self._notes[key] = value

    def _trim(self, store: Store) -> None:
        memory = self.fault is not None
        max_events = self.limits.memory_events if memory else self.limits.max_events
        max_bytes = self.limits.memory_bytes if memory else self.limits.max_bytes
        if store.events <= max_events and store.bytes <= max_bytes:
            return
        events = store.events - max_events + int(max_events * SLACK) if store.events > max_events else 0
        size = store.bytes - max_bytes + int(max_bytes * SLACK) if store.bytes > max_bytes else 0
        log.warning("The spool is full; dropped %s", store.drop(events=events, size=size))

    def _pending(self, store: Store) -> Flight | None:
        incarnations = store.incarnations()
        for incarnation in [*(other for other in incarnations if other != self.incarnation), *incarnations]:
            return Flight(incarnation, store.in_flight(incarnation))
        return None

    def _take_off(self, store: Store, first: Sequence[Waiting]) -> Flight | None:
        rows = _clip(store.unsent(BATCH_EVENTS // 2))
        if rows:
            rows += _clip(store.pressing(rows[-1].id, BATCH_EVENTS // 2))
        if not rows and not first:
            return None
        with store.transaction():
            store.insert(first, incarnation=self.incarnation, first_seq=self._next_seq)
            store.number([row.id for row in rows], self.incarnation, self._next_seq + len(first))
        self._next_seq += len(first) + len(rows)
        return Flight(self.incarnation, store.in_flight(self.incarnation))

    def _forget(self, store: Store, incarnation: str, up_to: int) -> None:
        with store.transaction():
            store.forget(incarnation, up_to)
        if not store.events:
            store.shrink_file()

    def _write(self, act: Callable[[Store], Result]) -> Result:
        try:
            return act(self._store)
        except sqlite3.Error as error:
            if self.fault is not None:
                raise
            self._fall_back(error)
            return act(self._store)

    def _fall_back(self, error: sqlite3.Error) -> None:
        log.error("The spool left the disk: %s", error)
        disk, flights = self._store, list[Flight]()
        try:
            flights = _flights(disk)
            self._flights_in_memory = True
        except sqlite3.Error:
            log.warning("What was in flight cannot be read back")
            self._flights_in_memory = False
        disk.close()
        self._store = self._open_memory(error)
        _copy_flights(self._store, flights)
        for key, value in self._notes.items():
            self._store.note(key, value)

    def _return_to_disk(self) -> None:
        memory, disk = self._store, self._open_disk()
        try:
            self._merge(memory, disk)
        except BaseException:
            disk.close()
            raise
        self._store, self.fault = disk, None
        self._notes = disk.notes()
        memory.close()

    def _merge(self, memory: Store, disk: Store) -> None:
        with disk.transaction():
            if self._flights_in_memory:
                disk.forget_flights()
            _copy_flights(disk, _flights(memory))
            disk.insert(memory.unsent_whole())
            disk.count_dropped(memory.dropped())
            for key, value in self._notes.items():
                disk.note(key, value)

    def _open_disk(self) -> Store:
        try:
            return Store(self.path, max_bytes=self.limits.max_bytes)
        except sqlite3.DatabaseError as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF not in BROKEN:
                raise
            log.error("The spool is broken and starts anew: %s", error)  # noqa: TRY400 - expected
            self._move_aside()
            return Store(self.path, max_bytes=self.limits.max_bytes)

    def _open_memory(self, error: sqlite3.Error) -> Store:
        self.fault = str(error)
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in BROKEN:
            self._move_aside()
        return Store(":memory:", max_bytes=self.limits.memory_bytes)

    def _move_aside(self) -> None:
        try:
            for suffix in ("", "-wal", "-shm"):
                file = self.path.with_name(self.path.name + suffix)
                if file.exists():
                    file.replace(file.with_name(f"broken-{file.name}"))
        except OSError as error:
            log.error("The broken spool cannot be moved aside: %s", error)  # noqa: TRY400 - expected


def _flights(store: Store) -> list[Flight]:
    return [Flight(incarnation, store.in_flight(incarnation)) for incarnation in store.incarnations()]


def _copy_flights(store: Store, flights: Sequence[Flight]) -> None:
    for flight in flights:
        items = [waiting(row.kind, row.body) for row in flight.rows]
        store.insert(items, incarnation=flight.incarnation, first_seq=flight.rows[0].seq)


def _clip(rows: Sequence[Row]) -> list[Row]:
    size, clipped = 0, list[Row]()
    for row in rows:
        size += len(row.body)
        if clipped and size > BATCH_BYTES // 2:
            break
        clipped.append(row)
    return clipped
