"""One partition per day (UTC) of receipt, made ahead and dropped whole when old.

Deleting yesterday's millions row by row would cost more than writing them did;
dropping a partition costs nothing. A default partition takes what arrives on a
day that has none, so a late housekeeper never stops ingest; its rows are moved
as soon as the day gets its own.

What is old is told by the calendar and by the number of days that were kept: a
clock that leaps a year ahead makes hardly anything old, since the days between are missing.
"""

from datetime import UTC, date, datetime, timedelta

from django.conf import settings
from django.db import connection, transaction
from django.db.backends.utils import CursorWrapper

from controlplane.events.log import LOCK

DAYS_AHEAD = 2
RETENTION_DAYS = 30
LOCK_TIMEOUT = "SET LOCAL lock_timeout = '5s'"
_PREFIX = "events_event_on_"


def maintain(now: datetime, *, retention: timedelta | None = None) -> None:
    """Make the partitions of today and the next days, and drop what is past `retention`."""
    kept = retention or timedelta(days=getattr(settings, "EVENT_RETENTION_DAYS", RETENTION_DAYS))
    today = now.astimezone(UTC).date()
    oldest = _oldest(today, kept.days)
    _drop_before(oldest)
    missing = _days_in_default() | {today + timedelta(days=ahead) for ahead in range(DAYS_AHEAD + 1)}
    for day in sorted(missing - existing()):
        _make(day)
    _forget_streams(oldest)


def _oldest(today: date, kept_days: int) -> date:
    """Return the first day that stays: none is dropped before as many later ones hold the log."""
    held = sorted(day for day in existing() | _days_in_default() if day <= today)
    return min(today - timedelta(days=kept_days), *held[-kept_days - 1 :], today)


def existing() -> set[date]:
    """Return the days that have a partition."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'events_event'::regclass")
        names = [name for (name,) in cursor.fetchall() if name.startswith(_PREFIX)]
    return {datetime.strptime(name.removeprefix(_PREFIX), "%Y%m%d").replace(tzinfo=UTC).date() for name in names}


def _make(day: date) -> None:
    """Build the partition beside the log, move its rows out of the default one, attach it."""
    name, bounds = _name(day), [day.isoformat() + "T00:00Z", (day + timedelta(days=1)).isoformat() + "T00:00Z"]
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(LOCK_TIMEOUT)
        cursor.execute(LOCK)
        if _is_there(cursor, name):
            return
        cursor.execute(f"CREATE TABLE {name} (LIKE events_event INCLUDING DEFAULTS INCLUDING CONSTRAINTS)")
        cursor.execute(
            f"WITH moved AS (DELETE FROM events_event_default WHERE received_at >= %s AND received_at < %s"  # noqa: S608
            f" RETURNING *) INSERT INTO {name} SELECT * FROM moved",
            bounds,
        )
        cursor.execute(f"ALTER TABLE events_event ATTACH PARTITION {name} FOR VALUES FROM (%s) TO (%s)", bounds)


def _is_there(cursor: CursorWrapper, name: str) -> bool:
    cursor.execute("SELECT to_regclass(%s) IS NOT NULL", [name])
    return bool(cursor.fetchone()[0])


def _days_in_default() -> set[date]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT DISTINCT (received_at AT TIME ZONE 'UTC')::date FROM events_event_default")
        return {day for (day,) in cursor.fetchall()}


def _drop_before(oldest: date) -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(LOCK_TIMEOUT)
        for day in sorted(existing()):
            if day < oldest:
                cursor.execute(f"DROP TABLE IF EXISTS {_name(day)}")  # another housekeeper may be at it
        cursor.execute("DELETE FROM events_event_default WHERE received_at < %s", [oldest.isoformat() + "T00:00Z"])


def _forget_streams(oldest: date) -> None:
    """Forget the sequence numbers of agents' lives that ended before the log begins."""
    with connection.cursor() as cursor:
        cursor.execute(
            "DELETE FROM events_stream WHERE last_seen_at < %s AND NOT holder", [oldest.isoformat() + "T00:00Z"]
        )


def _name(day: date) -> str:
    return f"{_PREFIX}{day:%Y%m%d}"
