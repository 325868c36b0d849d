"""Cross between the two notations of time: `datetime` in tables, float seconds in the domain."""

from datetime import UTC, datetime


def moment(seconds: float) -> datetime:
    """Turn seconds since the epoch into an aware UTC moment."""
    return datetime.fromtimestamp(seconds, UTC)


def seconds(at: datetime) -> float:
    """Turn a moment into seconds since the epoch."""
    return at.timestamp()
