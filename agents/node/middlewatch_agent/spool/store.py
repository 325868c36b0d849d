"""One SQLite file (or one in memory) of waiting events, and what must outlive the agent with them.

That a rank's end was told, how far a log was read, which command was accepted:
these facts are written in the same transaction as the event that they belong to,
so a kill -9 between the two cannot lose one or tell one twice.

WAL with synchronous=NORMAL: a killed process loses nothing, a power cut may lose
the last moments, which then were not acknowledged either.
"""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from middlewatch_agent.kinds import KEEP, URGENT, drop_class

SCHEMA = """
CREATE TABLE IF NOT EXISTS events (
    id INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL, class INTEGER NOT NULL,
    urgent INTEGER NOT NULL, body BLOB NOT NULL, incarnation TEXT, seq INTEGER);
CREATE INDEX IF NOT EXISTS in_flight ON events (incarnation, seq) WHERE seq IS NOT NULL;
CREATE INDEX IF NOT EXISTS droppable ON events (class, id) WHERE seq IS NULL;
CREATE INDEX IF NOT EXISTS pressing ON events (id) WHERE seq IS NULL AND urgent;
CREATE TABLE IF NOT EXISTS notes (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS dropped (kind TEXT PRIMARY KEY, n INTEGER NOT NULL) WITHOUT ROWID;
"""
VACUUM_PAGES = 20_000
CACHE_KIB = 512


class Waiting(NamedTuple):
    """An event as it waits: `body` is its JSON without `seq`."""

    kind: str
    klass: int
    urgent: bool
    body: bytes


def waiting(kind: str, body: bytes, *, urgent: bool = False) -> Waiting:
    """Prepare an encoded event for the spool."""
    return Waiting(kind, drop_class(kind), urgent or kind in URGENT, body)


class Row(NamedTuple):
    """A stored event; `seq` is 0 until it has been put into a batch."""

    id: int
    seq: int
    kind: str
    body: bytes


class Store:
    """Not safe for threads by itself: the Spool holds the lock."""

    def __init__(self, path: Path | str, *, max_bytes: int) -> None:
        """Open or create; raises sqlite3.DatabaseError when the file is unusable."""
        self.path = path
        self.db = sqlite3.connect(path, timeout=2.0, isolation_level=None, check_same_thread=False)
        try:
            self._prepare(max_bytes)
            self.events, self.bytes = self._measure()
        except BaseException:
            self.db.close()
            raise

    def _prepare(self, max_bytes: int) -> None:
        self.db.execute("PRAGMA auto_vacuum=INCREMENTAL")
        self.db.execute("PRAGMA journal_mode=WAL")
        self.db.execute("PRAGMA synchronous=NORMAL")
        self.db.execute(f"PRAGMA cache_size=-{CACHE_KIB}")
        self.db.execute(f"PRAGMA journal_size_limit={1 << 20}")
        page = int(self.db.execute("PRAGMA page_size").fetchone()[0])
        self.db.execute(f"PRAGMA max_page_count={(2 * max_bytes + (8 << 20)) // page}")
        self.db.executescript(SCHEMA)

    def _measure(self) -> tuple[int, int]:
        count, size = self.db.execute("SELECT count(*), coalesce(sum(length(body)), 0) FROM events").fetchone()
        return int(count), int(size)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit everything inside together or nothing of it."""
        before = self.events, self.bytes
        self.db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self.db.execute("COMMIT")
        except BaseException:
            self.events, self.bytes = before
            self._roll_back()
            raise

    def _roll_back(self) -> None:
        try:
            if self.db.in_transaction:
                self.db.execute("ROLLBACK")
        except sqlite3.DatabaseError:
            return  # the file is gone or broken; the caller's error says so

    def insert(self, items: Sequence[Waiting], *, incarnation: str | None = None, first_seq: int | None = None) -> None:
        """Append events; with an incarnation they are in flight at once, numbered from `first_seq`."""
        seqs = [None] * len(items) if first_seq is None else range(first_seq, first_seq + len(items))
        self.db.executemany(
            "INSERT INTO events (kind, class, urgent, body, incarnation, seq) VALUES (?, ?, ?, ?, ?, ?)",
            [(*item, incarnation, seq) for item, seq in zip(items, seqs, strict=True)],
        )
        self.events += len(items)
        self.bytes += sum(len(item.body) for item in items)

    def unsent(self, limit: int) -> list[Row]:
        """Give the oldest events without a number."""
        return self._rows("WHERE seq IS NULL ORDER BY id LIMIT ?", limit)

    def pressing(self, after: int, limit: int) -> list[Row]:
        """Give the oldest urgent events without a number behind an id."""
        return self._rows("WHERE seq IS NULL AND urgent AND id > ? ORDER BY id LIMIT ?", after, limit)

    def unsent_whole(self) -> list[Waiting]:
        """Give every event without a number, as it was put in."""
        query = "SELECT kind, class, urgent, body FROM events WHERE seq IS NULL ORDER BY id"
        return [Waiting(*row) for row in self.db.execute(query)]

    def number(self, ids: Iterable[int], incarnation: str, first_seq: int) -> None:
        """Put events in flight, numbered in the order given."""
        pairs = [(incarnation, first_seq + place, row_id) for place, row_id in enumerate(ids)]
        self.db.executemany("UPDATE events SET incarnation = ?, seq = ? WHERE id = ?", pairs)

    def in_flight(self, incarnation: str) -> list[Row]:
        """Give the numbered events of an incarnation in order."""
        return self._rows("WHERE seq IS NOT NULL AND incarnation = ? ORDER BY seq", incarnation)

    def incarnations(self) -> list[str]:
        """Give the incarnations that still have events in flight, oldest first."""
        query = "SELECT incarnation FROM events WHERE seq IS NOT NULL GROUP BY incarnation ORDER BY min(id)"
        return [row[0] for row in self.db.execute(query)]

    def forget(self, incarnation: str, up_to: int) -> None:
        """Delete the acknowledged events."""
        gone = self.db.execute(
            "DELETE FROM events WHERE incarnation = ? AND seq IS NOT NULL AND seq <= ? RETURNING length(body)",
            (incarnation, up_to),
        ).fetchall()
        self._shrink(gone)

    def forget_flights(self) -> None:
        """Delete every event in flight: another store has taken them over."""
        self._shrink(self.db.execute("DELETE FROM events WHERE seq IS NOT NULL RETURNING length(body)").fetchall())

    def unnumber(self, incarnation: str) -> None:
        """Take the numbers off again: these events will be sent by another incarnation."""
        self.db.execute("UPDATE events SET incarnation = NULL, seq = NULL WHERE incarnation = ?", (incarnation,))

    def replace_body(self, incarnation: str, seq: int, item: Waiting) -> None:
        """Put another event in the place of a numbered one."""
        old = self.db.execute(
            "SELECT length(body) FROM events WHERE incarnation = ? AND seq = ?", (incarnation, seq)
        ).fetchone()
        self.db.execute(
            "UPDATE events SET kind = ?, class = ?, urgent = ?, body = ? WHERE incarnation = ? AND seq = ?",
            (*item, incarnation, seq),
        )
        self.bytes += len(item.body) - int(old[0] if old else 0)

    def drop(self, *, events: int, size: int) -> dict[str, int]:
        """Delete at least so many unsent events and bytes, least precious kinds and oldest first; count by kind."""
        dropped: dict[str, int] = {}
        for klass in range(KEEP + 1):
            if events <= 0 and size <= 0:
                break
            for row_id, kind, length in self._oldest(klass):
                self.db.execute("DELETE FROM events WHERE id = ?", (row_id,))
                self._shrink([(length,)])
                dropped[kind] = dropped.get(kind, 0) + 1
                events, size = events - 1, size - length
                if events <= 0 and size <= 0:
                    break
        self.count_dropped(dropped)
        return dropped

    def _oldest(self, klass: int) -> list[tuple[int, str, int]]:
        return self.db.execute(
            "SELECT id, kind, length(body) FROM events WHERE seq IS NULL AND class = ? ORDER BY id LIMIT 5000", (klass,)
        ).fetchall()

    def count_dropped(self, dropped: dict[str, int]) -> None:
        """Add to the counts that outlive the agent."""
        self.db.executemany(
            "INSERT INTO dropped VALUES (?, ?) ON CONFLICT (kind) DO UPDATE SET n = n + excluded.n", dropped.items()
        )

    def dropped(self) -> dict[str, int]:
        """Give how many events of each kind were dropped since the file was made."""
        return dict(self.db.execute("SELECT kind, n FROM dropped"))

    def note(self, key: str, value: str | None) -> None:
        """Remember a fact, or forget it (None)."""
        if value is None:
            self.db.execute("DELETE FROM notes WHERE key = ?", (key,))
        else:
            self.db.execute("INSERT OR REPLACE INTO notes VALUES (?, ?)", (key, value))

    def notes(self) -> dict[str, str]:
        """Give every remembered fact."""
        return dict(self.db.execute("SELECT key, value FROM notes"))

    def counts(self) -> dict[str, int]:
        """Give how many events of each kind wait."""
        return dict(self.db.execute("SELECT kind, count(*) FROM events GROUP BY kind ORDER BY 2 DESC"))

    def shrink_file(self) -> None:
        """Give free pages back to the file system."""
        self.db.executescript(f"PRAGMA incremental_vacuum({VACUUM_PAGES})")  # `execute` would free one page

    def _shrink(self, gone: Iterable[tuple[int]]) -> None:
        for (length,) in gone:
            self.events -= 1
            self.bytes -= length

    def _rows(self, where: str, *values: object) -> list[Row]:
        query = f"SELECT id, coalesce(seq, 0), kind, body FROM events {where}"  # noqa: S608 - our own constants
        return [Row(*row) for row in self.db.execute(query, values)]

    def close(self) -> None:
        """Close the file."""
        self.db.close()
