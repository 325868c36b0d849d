from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection, transaction

from controlplane.events import log, queries
from tests.events.factories import batch, beat, hello, step

NOW = datetime(2026, 11, 29, 2, 0, tzinfo=UTC)
pytestmark = pytest.mark.django_db


def append(*batches, now=NOW):
    with transaction.atomic(), connection.cursor() as cursor:
        return log.append(cursor, batches, now)


def seqs(events):
    return [(event.node, event.seq) for event in events]


def test_a_run_sees_its_events_and_those_of_its_nodes_in_the_order_of_commits():
    append(batch(beat(1), step(2)), batch(beat(1), node="n02"), batch(beat(1), node="n03"))
    append(batch(step(3), step(4, run="other")))
    found = queries.since(0, run="demo", nodes=["n01", "n02"])
    assert seqs(found) == [("n01", 1), ("n01", 2), ("n02", 1), ("n01", 3)]
    assert [event.id for event in found] == sorted(event.id for event in found)


def test_a_cursor_goes_on_where_it_stood():
    append(batch(*[step(n) for n in range(1, 8)]))
    cursor, seen = 0, []
    while found := queries.since(cursor, run="demo", nodes=["n01"], limit=3):
        seen += [event.seq for event in found]
        cursor = found[-1].id
    assert seen == list(range(1, 8))


def test_a_chunk_never_skips_an_event_of_the_other_kind():
    append(batch(*[beat(n) for n in range(1, 6)], step(6), *[beat(n) for n in range(7, 9)]))
    first = queries.since(0, run="demo", nodes=["n01"], limit=4)
    rest = queries.since(first[-1].id, run="demo", nodes=["n01"])
    assert [event.seq for event in first + rest] == list(range(1, 9))


def test_the_fleet_sees_what_belongs_to_no_run():
    append(batch(hello(1), step(2)), batch(beat(1), node="n02"))
    assert seqs(queries.since(0)) == [("n01", 1), ("n02", 1)]
    assert seqs(queries.since(0, nodes=["n02"])) == [("n02", 1)]


def test_the_newest_event_of_a_kind_is_found():
    append(batch(step(1), step(2)), batch(step(1, run="other"), node="n02"))
    assert queries.latest("rank.step", run="demo").seq == 2
    assert queries.latest("rank.step", node="n02").run == "other"
    assert queries.latest("node.hello") is None


def test_the_tail_is_newest_first_and_bounded():
    append(batch(*[step(n) for n in range(1, 6)]))
    assert [event.seq for event in queries.tail(run="demo", limit=2)] == [5, 4]
    assert [event.seq for event in queries.tail(node="n01", limit=-1)] == []


def test_the_last_id_is_where_a_new_reader_may_start():
    assert queries.last_id() == 0
    append(batch(step(1)))
    start = queries.last_id()
    append(batch(step(2)))
    assert [event.seq for event in queries.since(start, run="demo")] == [2]


def test_a_chart_gets_the_newest_steps_oldest_first():
    append(batch(step(1, duration_ms=100, loss=2.5, tokens=64)), now=NOW - timedelta(hours=2))
    append(batch(step(2, duration_ms=110), step(3, loss=float("nan"))))
    recent = queries.step_series("demo", since=NOW - timedelta(hours=1))
    assert [(point.step, point.duration_ms, point.loss) for point in recent] == [(2, 110, None), (3, None, "nan")]
    (oldest, *_) = queries.step_series("demo")
    assert (oldest.at, oldest.step, oldest.tokens, oldest.loss) == (1.0, 1, 64, 2.5)
    assert [point.step for point in queries.step_series("demo", limit=1)] == [3]
