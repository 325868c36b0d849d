"""A log with one writer: many moments in one copy, decided as ingest decides."""

from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection, transaction
from middlewatch_wire import AgentIdentity, Batch, decode_batch, encode_batch, make_event

from controlplane.events import queries
from controlplane.events.bulk import BulkLog
from controlplane.events.streams import Refusal

NOW = datetime(2026, 11, 29, tzinfo=UTC)

pytestmark = pytest.mark.django_db


def batch(*events, node="n01", life="a"):
    agent = AgentIdentity(node=node, incarnation=life)
    return decode_batch(encode_batch(Batch(agent=agent, sent_at_ms=1, events=list(events))))


def step(number, seq):
    return make_event("rank.step", at_ms=1, seq=seq, run="demo", attempt=1, rank=0, step=number)


def take(log, what, after=0):
    at = NOW + timedelta(seconds=after)
    return log.take(what, at, at.timestamp())


def write(log):
    with transaction.atomic(), connection.cursor() as cursor:
        log.write(cursor)


def test_each_batch_keeps_the_moment_of_its_own_arrival():
    log = BulkLog()
    take(log, batch(step(1, 1)))
    take(log, batch(step(2, 2)), after=60)
    write(log)
    found = queries.since(0, run="demo")
    assert [(one.data["step"], one.received_at) for one in found] == [(1, NOW), (2, NOW + timedelta(seconds=60))]


def test_a_number_counts_once_also_across_writes():
    log = BulkLog()
    assert len(take(log, batch(step(1, 1))).fresh) == 1
    write(log)
    assert take(log, batch(step(1, 1)), after=5).fresh == []
    write(log)
    assert len(queries.since(0, run="demo")) == 1


def test_kinds_that_nobody_reads_back_count_and_are_not_written():
    log = BulkLog(dropped=["node.heartbeat"])
    assert len(take(log, batch(make_event("node.heartbeat", at_ms=1, seq=1))).fresh) == 1
    write(log)
    assert queries.last_id() == 0
    assert queries.speaks_for_name("n01", "a") is not None


def test_a_second_machine_under_a_living_name_is_refused():
    log = BulkLog()
    hello = {"hardware": {"machine_id": "m1"}}
    take(log, batch(make_event("node.hello", at_ms=1, seq=1, **hello)))
    other = make_event("node.hello", at_ms=1, seq=1, hardware={"machine_id": "m2"})
    assert take(log, batch(other, life="b"), after=1).refused is Refusal.IDENTITY_CONFLICT
