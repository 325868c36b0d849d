"""The virtual clock: seconds since the trace's zero, and the moments they stand for."""

from datetime import UTC, datetime, timedelta

BASE = datetime(2026, 1, 1, tzinfo=UTC)
"""Where every trace begins, so that the same trace gives the same report on any day."""
BASE_S = BASE.timestamp()
BASE_MS = int(BASE_S * 1000)


def at(t: float) -> datetime:
    """Give the moment `t` seconds after the trace's zero."""
    return BASE + timedelta(seconds=t)


def t_of(moment: datetime | None) -> float | None:
    """Give the seconds between the trace's zero and a moment, to the millisecond."""
    return None if moment is None else round((moment - BASE).total_seconds(), 3)


def t_of_seconds(seconds: float) -> float:
    """Give the trace's time of a moment in seconds since the epoch."""
    return round(seconds - BASE_S, 3)
