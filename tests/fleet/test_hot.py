import time
from datetime import UTC, datetime, timedelta

import pytest
import redis
from django.conf import settings
from django.db import connection, transaction

from controlplane.events import log
from controlplane.fleet import hot
from tests.events.factories import batch, beat, step
from tests.patience import within

NOW = datetime(2026, 11, 29, 2, 0, tzinfo=UTC)
pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def client():
    client = redis.Redis.from_url(settings.REDIS_URL)
    client.delete(hot.nodes_key(), hot.runs_key())
    yield client
    client.delete(hot.nodes_key(), hot.runs_key())
    client.close()


def append(*batches, now=NOW):
    with transaction.atomic(), connection.cursor() as cursor:
        return log.append(cursor, batches, now)


def test_what_redis_knows_is_taken_from_it(client):
    client.hset(hot.nodes_key(), "n01", hot.encode_seen(NOW))
    client.hset(hot.runs_key(), "demo", hot.encode_step(3, 120, NOW))
    assert hot.node_seen(["n01", "n02"]) == {"n01": NOW}
    assert hot.run_step("demo") == hot.HotStep(3, 120, NOW)


def test_what_redis_lost_is_read_from_the_log_and_put_back(client):
    append(batch(beat(1), step(2)), batch(beat(1), node="n02"))
    later = NOW + timedelta(seconds=5)
    append(batch(beat(3)), now=later)
    assert hot.node_seen(["n01", "n02", "n03"]) == {"n01": later, "n02": NOW}
    assert hot.run_step("demo") == hot.HotStep(1, 2, NOW)
    assert set(client.hkeys(hot.nodes_key())) == {b"n01", b"n02"}
    assert client.hexists(hot.runs_key(), "demo")


def test_a_whole_fleet_that_redis_lost_is_put_back_with_one_question(monkeypatch):
    names = [f"n{number:02}" for number in range(50)]
    append(*(batch(beat(1), node=name) for name in names))
    hot.node_seen(["n00"])
    sent, send = [], redis.connection.Connection.send_packed_command
    monkeypatch.setattr(
        redis.connection.Connection, "send_packed_command", lambda *asked, **how: sent.append(1) or send(*asked, **how)
    )
    assert set(hot.node_seen(names)) == set(names)
    assert len(sent) == 2


def test_without_redis_the_log_answers_alone_and_soon(monkeypatch):
    hot._client.cache_clear()
    monkeypatch.setattr(settings, "REDIS_URL", "redis://127.0.0.1:1/0")
    append(batch(step(1)))
    began = time.monotonic()
    assert hot.node_seen(["n01"]) == {"n01": NOW}
    assert hot.run_step("demo").step == 1
    assert hot.run_step("nothing") is None
    assert time.monotonic() - began < within(3)
    hot._client.cache_clear()


def test_nobody_asked_for_is_nobody_answered():
    assert hot.node_seen([]) == {}
