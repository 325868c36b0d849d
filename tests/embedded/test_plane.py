"""One living control plane, hurt and watched. It is shared, so each test leaves it as it found it."""

import os
import signal
import time
import urllib.error
import urllib.request

import psycopg
import pytest
import redis

from controlplane.embedded.child import wait_until
from controlplane.embedded.errors import CannotStart
from controlplane.embedded.home import Home
from controlplane.embedded.plane import ControlPlane
from controlplane.embedded.ports import free_port

pytestmark = pytest.mark.xdist_group("plane")

PROGRAMS = {"postgres", "valkey", "web", "worker", "beat"}
OUTAGE_S = 8.0
RECOVERY_S = 20.0


def status(plane, path):
    try:
        with urllib.request.urlopen(plane.url + path, timeout=10) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


def waiting(plane):
    """Messages that no worker has taken; PostgreSQL's and Redis's troubles show here as growth."""
    return redis.Redis.from_url(plane.redis_url).llen("celery")


def sweeps_happen(plane):
    """A worker takes messages: one put last in the queue disappears."""
    return plane.log("worker").exists() and waiting(plane) <= 2


def test_everything_runs_and_a_page_is_served(live_plane):
    assert live_plane.pids().keys() >= PROGRAMS
    assert status(live_plane, "/healthz") == 200
    assert status(live_plane, "/readyz") == 200


def test_the_administrator_and_the_enrolment_token_are_told_and_the_password_only_once(live_plane, first_welcome):
    first, second = first_welcome, live_plane.welcome()
    assert first["name"] == "admin"
    assert first["password"]
    assert first["link"].startswith(live_plane.url)
    assert "password" not in second
    assert "link" not in second
    assert first["token"] != second["token"]


def test_a_second_plane_on_the_same_home_is_refused_and_the_first_goes_on(live_plane):
    with pytest.raises(CannotStart, match="already runs from"), ControlPlane(live_plane.home.path):
        pass
    assert status(live_plane, "/healthz") == 200


def test_a_program_can_be_added_with_its_own_log(live_plane):
    pid = live_plane.spawn("extra", ["/bin/sh", "-c", "echo hello; sleep 60"], {"PATH": "/bin"})
    try:
        assert live_plane.pids()["extra"] == pid
        assert wait_until(lambda: live_plane.log("extra").read_text() == "hello\n", RECOVERY_S)
    finally:
        live_plane.halt("extra")
    assert "extra" not in live_plane.pids()


@pytest.mark.parametrize("name", ["web", "worker", "beat"])
def test_a_killed_program_is_restarted(live_plane, name):
    before = live_plane.pids()[name]
    os.kill(before, signal.SIGKILL)
    assert wait_until(lambda: live_plane.pids().get(name, before) != before, RECOVERY_S)
    assert wait_until(lambda: name != "web" or answers(live_plane), RECOVERY_S)


def answers(plane):
    try:
        return status(plane, "/healthz") == 200
    except OSError:
        return False


def test_an_outage_of_postgresql_ends_by_itself(live_plane):
    before = live_plane.pids()
    live_plane.halt("postgres")
    time.sleep(OUTAGE_S)
    assert status(live_plane, "/healthz") == 200
    assert status(live_plane, "/readyz") == 503
    live_plane.revive("postgres")
    assert wait_until(lambda: status(live_plane, "/readyz") == 200, RECOVERY_S)
    after = live_plane.pids()
    assert all(after[name] == before[name] for name in ("web", "worker", "beat"))
    assert wait_until(lambda: sweeps_happen(live_plane), RECOVERY_S)


def test_an_outage_of_redis_ends_by_itself(live_plane):
    before = live_plane.pids()
    live_plane.halt("valkey")
    time.sleep(OUTAGE_S)
    assert status(live_plane, "/readyz") == 200
    live_plane.revive("valkey")
    beats = redis.Redis.from_url(live_plane.redis_url)
    assert wait_until(lambda: worker_takes(beats), RECOVERY_S)
    after = live_plane.pids()
    assert all(after[name] == before[name] for name in ("web", "worker", "beat"))


def worker_takes(client):
    """Beat sends a message each second; the worker's blocking read of the queue must be there to take it."""
    try:
        return any("brpop" in str(each["cmd"]) for each in client.client_list()) and client.llen("celery") <= 2
    except redis.RedisError:
        return False


def test_rows_are_in_the_private_database(live_plane):
    with psycopg.connect(live_plane.database_url) as connection:
        assert connection.execute("SELECT count(*) FROM django_migrations").fetchone()[0] > 0


def test_a_wanted_port_that_is_taken_is_named(tmp_path, live_plane):
    taken = ControlPlane(tmp_path, port=live_plane.port, database_url="x", redis_url="x")
    with pytest.raises(CannotStart, match=f"Port {live_plane.port} is taken"):
        taken._choose_port()


def test_the_port_of_the_last_start_is_used_again_when_it_is_free(tmp_path):
    Home(tmp_path).remember("port", port := free_port())
    assert ControlPlane(tmp_path)._choose_port() == port


def test_a_lost_port_is_replaced_and_told(tmp_path, live_plane):
    Home(tmp_path).remember("port", live_plane.port)
    said = []
    assert ControlPlane(tmp_path, say=said.append)._choose_port() != live_plane.port
    assert f"Port {live_plane.port} of the last start is taken" in said[0]
