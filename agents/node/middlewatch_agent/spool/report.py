"""Describe a spool for people, without disturbing the agent that uses it."""

import sqlite3
import time
from pathlib import Path

import msgspec


def describe(path: Path, *, now_s: float | None = None) -> str:
    """Give the text of `middlewatch-agent spool`: counts by kind, the oldest event, what was dropped."""
    if not path.exists():
        return "There is no spool yet.\n"
    try:
        with sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=2.0) as db:
            return _describe(db, time.time() if now_s is None else now_s)
    except sqlite3.DatabaseError as error:
        return f"The spool cannot be read: {error}\n"


def _describe(db: sqlite3.Connection, now_s: float) -> str:
    counts = db.execute("SELECT kind, count(*), sum(length(body)) FROM events GROUP BY kind ORDER BY 2 DESC").fetchall()
    flying = db.execute("SELECT count(*) FROM events WHERE seq IS NOT NULL").fetchone()[0]
    oldest = db.execute("SELECT body FROM events ORDER BY id LIMIT 1").fetchone()
    dropped = db.execute("SELECT kind, n FROM dropped ORDER BY n DESC").fetchall()
    events, size = sum(row[1] for row in counts), sum(row[2] for row in counts)
    lines = [f"{events} events wait ({size} bytes), {flying} of them in flight."]
    lines += [f"  {kind}: {count}" for kind, count, _ in counts]
    if oldest:
        age_s = now_s - msgspec.json.decode(oldest[0])["at_ms"] / 1000.0
        lines.append(f"The oldest happened {max(0.0, age_s):.0f} s ago.")
    lines.append(f"{sum(count for _, count in dropped)} events were dropped since this spool was made.")
    lines += [f"  {kind}: {count}" for kind, count in dropped]
    return "\n".join(lines) + "\n"
