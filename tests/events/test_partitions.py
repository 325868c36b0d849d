from datetime import UTC, date, datetime, timedelta

import pytest
from django.db import connection, transaction

from controlplane.events import log, partitions, queries
from tests.events.factories import batch, hello, step

NOW = datetime(2026, 11, 29, 2, 0, tzinfo=UTC)
pytestmark = pytest.mark.django_db


def append(*batches, now=NOW):
    with transaction.atomic(), connection.cursor() as cursor:
        return log.append(cursor, batches, now)


def tables():
    with connection.cursor() as cursor:
        cursor.execute("SELECT tableoid::regclass::text, count(*) FROM events_event GROUP BY 1")
        return dict(cursor.fetchall())


def days(*numbers):
    return {date(2026, 11, number) for number in numbers}


def test_today_and_the_next_days_are_made_ahead():
    partitions.maintain(NOW - timedelta(days=1))
    assert partitions.existing() == days(28, 29, 30)
    append(batch(step(1)))
    assert tables() == {"events_event_on_20261129": 1}


def test_housekeeping_again_changes_nothing():
    for _ in range(2):
        partitions.maintain(NOW)
    assert len(partitions.existing()) == partitions.DAYS_AHEAD + 1


def test_a_day_begins_and_ends_at_midnight_utc():
    partitions.maintain(NOW)
    midnight = datetime(2026, 11, 30, tzinfo=UTC)
    append(batch(step(1)), now=midnight - timedelta(milliseconds=1))
    append(batch(step(2)), now=midnight)
    assert tables() == {"events_event_on_20261129": 1, "events_event_on_20261130": 1}


def test_events_of_a_day_without_a_partition_are_kept_and_moved_later():
    append(batch(step(1), step(2)))
    assert tables() == {"events_event_default": 2}
    before = queries.since(0, run="demo")
    partitions.maintain(NOW + timedelta(hours=1))
    assert tables() == {"events_event_on_20261129": 2}
    assert queries.since(0, run="demo") == before


def day_by_day(age):
    """Keep house on each day from so many days ago to today, as a control plane that runs does."""
    for days_ago in range(age, -1, -1):
        partitions.maintain(NOW - timedelta(days=days_ago), retention=timedelta(days=90))


def test_days_past_retention_are_dropped_whole():
    day_by_day(40)
    for age in (40, 31, 30, 0):
        append(batch(step(age + 1), incarnation=f"i{age}"), now=NOW - timedelta(days=age))
    partitions.maintain(NOW, retention=timedelta(days=30))
    assert sorted(event.seq for event in queries.since(0, run="demo")) == [1, 31]
    assert min(partitions.existing()) == date(2026, 10, 30)


def test_a_clock_that_leaps_a_year_ahead_costs_no_more_than_the_two_oldest_days():
    day_by_day(30)
    for age in (28, 0):
        append(batch(step(age + 1), incarnation=f"i{age}"), now=NOW - timedelta(days=age))
    partitions.maintain(NOW + timedelta(days=365), retention=timedelta(days=30))
    partitions.maintain(NOW, retention=timedelta(days=30))
    assert sorted(event.seq for event in queries.since(0, run="demo")) == [1, 29]


def test_old_rows_of_the_default_partition_are_deleted_too():
    day_by_day(30)
    append(batch(step(1)), now=NOW - timedelta(days=31))
    partitions.maintain(NOW, retention=timedelta(days=30))
    assert tables() == {}


def test_lives_that_ended_before_the_log_begins_are_forgotten_but_not_who_holds_a_name():
    day_by_day(30)
    long_ago = NOW - timedelta(days=31)
    append(batch(step(1), incarnation="gone"), batch(hello(1), incarnation="holder"), now=long_ago)
    partitions.maintain(NOW, retention=timedelta(days=30))
    assert queries.speaks_for_name("n01", "gone") is None
    assert queries.speaks_for_name("n01", "holder")
