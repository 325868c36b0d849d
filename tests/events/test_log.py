import itertools
import threading
from datetime import UTC, datetime, timedelta

import msgspec
import psycopg
import pytest
from django.db import connection, transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from middlewatch_wire import decode_batch

from controlplane.events import log, queries
from controlplane.events.streams import Refusal
from controlplane.ingest import database
from tests.events.factories import batch, beat, hello, step

NOW = datetime(2026, 11, 29, 2, 0, tzinfo=UTC)


def append(*batches, now=NOW):
    with transaction.atomic(), connection.cursor() as cursor:
        return log.append(cursor, batches, now)


@pytest.mark.django_db
def test_an_event_comes_back_as_it_was_sent():
    text = 'tab\t newline\n backslash \\ quote " nul \0 snow ☃'
    append(batch(step(1, loss=float("nan")), *[hello(2)], node="n\\1"))
    append(decode_batch(log_line(text)))
    stored = queries.since(0, run="demo")
    assert [event.data for event in stored] == [{"step": 1, "loss": "nan"}, {"text": text.replace("\0", "�")}]
    assert stored[0].node == "n\\1"
    assert stored[0].received_at == NOW
    assert stored[0].signal().received == NOW.timestamp()


def log_line(text):
    event = {"seq": 1, "at_ms": 5, "kind": "rank.log", "run": "demo", "data": {"text": text}}
    return msgspec.json.encode(
        {"wire": 1, "agent": {"node": "n01", "incarnation": "x"}, "sent_at_ms": 1, "events": [event]}
    )


@pytest.mark.django_db
def test_a_batch_sent_again_changes_nothing():
    first = append(batch(step(1), step(2)))[0]
    again = append(batch(step(1), step(2)))[0]
    assert (first.ack, again.ack) == (2, 2)
    assert [len(result.fresh) for result in (first, again)] == [2, 0]
    assert len(queries.since(0, run="demo")) == 2


@pytest.mark.django_db
def test_the_same_batch_twice_in_one_append_is_stored_once():
    results = append(batch(step(1), step(2)), batch(step(2), step(3)))
    assert [result.ack for result in results] == [2, 3]
    assert [event.seq for event in queries.since(0, run="demo")] == [1, 2, 3]


@pytest.mark.django_db
def test_a_gap_holds_the_acknowledgement_until_it_is_filled():
    assert append(batch(step(1), step(2)))[0].ack == 2
    assert append(batch(step(5), step(6)))[0].ack == 2
    assert append(batch(step(3), step(4)))[0].ack == 6


@pytest.mark.django_db
def test_the_first_batch_of_an_unknown_stream_sets_the_base():
    assert append(batch(step(500), step(501)))[0].ack == 501
    assert append(batch(step(10)))[0].ack == 501
    assert len(queries.since(0, run="demo")) == 3


@pytest.mark.django_db
def test_rejected_events_count_as_received():
    decoded = batch(step(1), step(2), step(3))
    spoilt = decode_batch(log_line("x").replace(b'"text":"x"', b'"text":5').replace(b'"seq":1', b'"seq":4'))
    spoilt.agent = decoded.agent
    append(decoded)
    assert append(spoilt)[0].ack == 4
    assert len(queries.since(0, run="demo")) == 3


@pytest.mark.django_db
def test_an_append_outside_a_transaction_is_refused(transactional_db):
    with connection.cursor() as cursor, pytest.raises(RuntimeError):
        log.append(cursor, [batch(step(1))], NOW)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
@pytest.mark.django_db
def test_any_order_and_repetition_of_batches_stores_each_event_once(data):
    cuts = sorted(data.draw(st.sets(st.integers(2, 40), max_size=8)))
    edges = [1, *cuts, 41]
    chunks = [range(low, high) for low, high in itertools.pairwise(edges)]
    first, rest = chunks[0], chunks * 2
    order = data.draw(st.permutations(rest))
    with transaction.atomic():
        run = "any-order"
        append(batch(*[step(n, run=run) for n in first]))
        acks = [append(batch(*[step(n, run=run) for n in chunk]))[0].ack for chunk in order]
        stored = [event.seq for event in queries.since(0, run=run)]
        transaction.set_rollback(True)
    assert sorted(stored) == list(range(1, 41))
    assert acks == sorted(acks)
    assert acks[-1] == 40


@pytest.mark.django_db(transaction=True)
def test_a_reader_behind_a_cursor_misses_nothing_while_two_writers_overlap():
    params = database.conninfo()
    seen, stop = [], threading.Event()

    def write(node):
        with psycopg.connect(params) as link:
            for n in range(1, 60):
                with link.transaction(), link.cursor() as cursor:
                    log.append(cursor, [batch(step(n, run="race"), node=node)], NOW)

    writers = [threading.Thread(target=write, args=(f"w{i}",)) for i in range(2)]
    for writer in writers:
        writer.start()
    cursor_id = 0
    while not stop.is_set():
        finished = not any(writer.is_alive() for writer in writers)
        for event in queries.since(cursor_id, run="race"):
            seen.append((event.node, event.seq))
            cursor_id = event.id
        if finished:
            stop.set()
    assert len(seen) == len(set(seen)) == 118


@pytest.mark.django_db
def test_a_restarted_agent_of_the_same_machine_takes_over_at_once():
    append(batch(hello(1), incarnation="old"))
    assert append(batch(hello(1), incarnation="new"), now=NOW + timedelta(seconds=1))[0].refused is None
    assert append(batch(beat(2), incarnation="old"))[0].refused is Refusal.SUPERSEDED


@pytest.mark.django_db
def test_events_of_the_older_life_are_taken_until_the_newer_one_says_hello():
    append(batch(hello(1), incarnation="old"))
    append(batch(beat(1), incarnation="new"))
    assert append(batch(step(2), incarnation="old"))[0].refused is None


@pytest.mark.django_db
def test_another_machine_under_a_living_name_is_kept_out_and_put_on_record():
    append(batch(hello(1, machine_id="a"), incarnation="a"))
    later = NOW + timedelta(seconds=5)
    refused = append(batch(hello(1, machine_id="b"), step(2), incarnation="b"), now=later)[0]
    assert refused.refused is Refusal.IDENTITY_CONFLICT
    assert append(batch(step(2), incarnation="b"), now=later)[0].refused is Refusal.IDENTITY_CONFLICT
    assert queries.since(0, run="demo") == []
    assert queries.speaks_for_name("n01", "a")
    assert queries.speaks_for_name("n01", "b") is False
    assert [event.incarnation for event in queries.since(0)] == ["a", "b"]


@pytest.mark.django_db
def test_another_machine_takes_the_name_of_one_that_has_been_silent():
    append(batch(hello(1, machine_id="a"), incarnation="a"))
    later = NOW + timedelta(seconds=31)
    assert append(batch(hello(1, machine_id="b"), incarnation="b"), now=later)[0].refused is None
    assert append(batch(beat(2), incarnation="a"), now=later)[0].refused is Refusal.SUPERSEDED
