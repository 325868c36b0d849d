"""PostgreSQL and Redis go away under load; these tests have servers of their own to hurt."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import psycopg
import pytest
import redis

from tests.events.factories import step
from tests.ingest.conftest import Answer, body
from tests.patience import within
from tests.servers import private_servers

ENROL = """
import django; django.setup()
from datetime import UTC, datetime
from controlplane.fleet import actions
now = datetime.now(UTC)
token = actions.create_enrolment_token("test", now, 4)
print(*[actions.enrol(token, f"n{n}", now) for n in range(4)])
"""


pytestmark = pytest.mark.xdist_group("outages")


@pytest.fixture(scope="module")
def world():
    with private_servers(durable=True) as servers:
        env = os.environ | {
            "DATABASE_URL": servers.database_url, "REDIS_URL": servers.redis_url,
            "DJANGO_SETTINGS_MODULE": "controlplane.settings.base", "MIDDLEWATCH_SECRET_KEY": "x" * 40,
        }  # fmt: skip
        subprocess.run([sys.executable, "manage.py", "migrate", "-v0"], env=env, check=True)
        bought = subprocess.run([sys.executable, "-c", ENROL], env=env, check=True, capture_output=True, text=True)
        with ingest_process(env) as port:
            yield World(servers, port, bought.stdout.split())


class World:
    def __init__(self, servers, port, tokens):
        self.servers, self.port, self.tokens = servers, port, tokens

    def send(self, number, seqs, incarnation):
        link = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        text = body(*[step(seq, run=incarnation) for seq in seqs], node=f"n{number}", incarnation=incarnation)
        try:
            link.request("POST", "/api/v1/ingest", text, {"Authorization": f"Bearer {self.tokens[number]}"})
            response = link.getresponse()
            return Answer(response.status, json.loads(response.read()), dict(response.getheaders()))
        finally:
            link.close()

    def stored(self, run):
        with psycopg.connect(self.servers.database_url) as link:
            return list(link.execute("SELECT node, seq FROM events_event WHERE run = %s", [run]))


@contextmanager
def ingest_process(env):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, "-m", "uvicorn", "controlplane.ingest.asgi:application", "--port", str(port),
         "--log-level", "warning", "--timeout-graceful-shutdown", "1"],
        env=env,
    )  # fmt: skip
    try:
        wait_until(lambda: answers(port), 20)
        yield port
    finally:
        process.terminate()
        process.wait(15)


def answers(port):
    try:
        link = http.client.HTTPConnection("127.0.0.1", port, timeout=1)
        link.request("GET", "/api/v1/ping")
        return link.getresponse().status == 200
    except OSError:
        return False


def wait_until(condition, within_s):
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)


class Sender(threading.Thread):
    """An agent in short: sends the same batch until it is acknowledged, then the next."""

    def __init__(self, world, number, run):
        super().__init__(daemon=True)
        self.world, self.number, self.run_name = world, number, run
        self.acked, self.statuses, self.stop = 0, [], threading.Event()

    def run(self):
        while not self.stop.is_set():
            seqs = range(self.acked + 1, self.acked + 6)
            try:
                answer = self.world.send(self.number, seqs, self.run_name)
            except OSError:
                continue
            self.statuses.append(answer.status)
            if answer.status == 200:
                self.acked = answer.body["ack"]
            else:
                assert int(answer.headers["retry-after"]) > 0
                time.sleep(0.05)


def load(world, run, hurt):
    senders = [Sender(world, number, run) for number in range(4)]
    for sender in senders:
        sender.start()
    wait_until(lambda: all(sender.acked > 20 for sender in senders), 20)
    hurt(senders)
    marks = [sender.acked for sender in senders]
    wait_until(lambda: all(s.acked > mark + 20 for s, mark in zip(senders, marks, strict=True)), 40)
    for sender in senders:
        sender.stop.set()
    for sender in senders:
        sender.join(20)
    return senders


def assert_nothing_lost(world, run, senders):
    stored = world.stored(run)
    assert len(stored) == len(set(stored))
    for sender in senders:
        have = {seq for node, seq in stored if node == f"n{sender.number}"}
        assert have >= set(range(1, sender.acked + 1))


def test_postgresql_stopped_and_started_under_load_loses_nothing_acknowledged(world):
    def stop_for_a_while(senders):
        world.servers.halt("postgres")
        wait_until(lambda: all(503 in sender.statuses for sender in senders), 20)
        world.servers.revive("postgres")

    senders = load(world, "stopped", stop_for_a_while)
    assert {status for sender in senders for status in sender.statuses} == {200, 503}
    assert_nothing_lost(world, "stopped", senders)


def test_postgresql_killed_under_load_loses_nothing_acknowledged(world):
    def kill(_senders):
        os.kill(world.servers.group.pids()["postgres"], signal.SIGKILL)

    senders = load(world, "killed", kill)
    assert_nothing_lost(world, "killed", senders)


def test_ingest_goes_on_without_redis(world):
    world.servers.halt("valkey")
    try:
        began = time.monotonic()
        for first in range(1, 50, 5):
            assert world.send(0, range(first, first + 5), "no-redis").status == 200
        assert time.monotonic() - began < within(10)
    finally:
        world.servers.revive("valkey")
    assert len(world.stored("no-redis")) == 50


def test_hot_state_comes_back_when_redis_does(world):
    def last_step():
        client = redis.Redis.from_url(world.servers.redis_url)
        try:
            (key,) = client.keys("mw:hot:*:runs") or [""]
            return json.loads(client.hget(key, "hot") or "[0, 0]")[1]
        except redis.RedisError:
            return None
        finally:
            client.close()

    assert world.send(0, range(1, 6), "hot").status == 200
    wait_until(lambda: last_step() == 5, 10)
    world.servers.halt("valkey")
    world.servers.revive("valkey")
    assert world.send(0, range(6, 11), "hot").status == 200
    wait_until(lambda: last_step() == 10, 10)
