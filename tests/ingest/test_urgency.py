import base64
import json
import time
from datetime import UTC, datetime

import pytest
import redis
from django.conf import settings
from middlewatch_wire import make_event

from controlplane.runs.models import Run
from controlplane.watch import wake

QUEUE = "celery"


@pytest.fixture
def broker():
    client = redis.Redis.from_url(settings.CELERY_BROKER_URL)
    client.delete(QUEUE)
    yield client
    client.delete(QUEUE)
    client.close()


@pytest.fixture(autouse=True)
def new_names_are_looked_up_at_once(monkeypatch):
    monkeypatch.setattr(wake, "LOOK_EVERY_S", 0.0)


def next_task(broker, within_s=5.0):
    found = broker.blpop(QUEUE, within_s)
    assert found, "nothing reached the broker"
    message = json.loads(found[1])
    return message["headers"]["task"].rpartition(".")[2], json.loads(base64.b64decode(message["body"]))[0]


def test_an_uncaught_exception_reaches_the_workers_queue_at_once_and_other_lines_do_not(broker, server, token):
    run = Run.objects.create(name="raising", launcher="head", nodes_wanted=1, created_at=datetime.now(UTC))
    assert next_task(broker) == ("sweep_fleet", [])

    def writes(seq, text):
        line = make_event("rank.log", at_ms=seq, seq=seq, run="raising", attempt=1, rank=0, stream="log", text=text)
        assert server.post(line, token=token).status == 200

    writes(1, "socket: Connection reset by peer")
    assert broker.blpop(QUEUE, 0.3) is None
    writes(2, "[rank0]: Traceback (most recent call last):")
    assert next_task(broker) == ("sweep_run", [run.pk])


def test_a_ranks_death_reaches_the_workers_queue_at_once(broker, server, token):
    run = Run.objects.create(name="demo", launcher="head", nodes_wanted=1, created_at=datetime.now(UTC))
    assert next_task(broker) == ("sweep_fleet", [])
    for seq in range(1, 11):
        death = make_event("rank.exited", at_ms=seq, seq=seq, run="demo", attempt=1, rank=0, signal=9)
        assert server.post(death, token=token).status == 200
        assert next_task(broker) == ("sweep_run", [run.pk])
        time.sleep(0.06)
