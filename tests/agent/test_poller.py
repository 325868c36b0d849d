import threading
import time

import pytest
from middlewatch_agent.backoff import Backoff
from middlewatch_agent.poller import Poller, measure_skew
from middlewatch_agent.transport import Connection, Token, UnreachableError


@pytest.fixture
def polling(tmp_path, plane):
    (tmp_path / "token").write_text("good")
    taken = []
    poller = Poller(
        Connection(plane.url), Token(tmp_path / "token"), incarnation="i1", wait_s=25, take=taken.append,
        backoff=Backoff(first_s=0.01),
    )  # fmt: skip
    poller.taken = taken
    return poller


def given(**more):
    return {"command_id": "c1", "kind": "collect", "args": {}, "lease_s": 15, "deadline_ms": 1_000_000} | more


def test_a_command_is_taken(polling, plane):
    plane.commands = [given()]
    polling.poll()
    assert [(command.command_id, command.kind, command.lease_s) for command in polling.taken] == [
        ("c1", "collect", 15.0)
    ]


def test_it_says_which_life_of_the_agent_asks(polling, plane):
    polling.poll()
    assert plane.requests[-1].startswith("GET /api/v1/commands?wait_s=25&incarnation=i1")


def test_a_deadline_is_put_on_our_own_clock(polling, plane):
    plane.skew_ms = 60_000
    plane.commands = [given()]
    polling.poll()
    assert polling.taken[0].deadline_ms == pytest.approx(1_000_000 - 60_000, abs=200)


@pytest.mark.parametrize("by_s", [-3600, 3600])
def test_a_deadline_is_right_though_somebody_set_our_clock_a_moment_ago(polling, plane, monkeypatch, by_s):
    polling.poll()
    real = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: real() + by_s * 10**9)
    monkeypatch.setattr(time, "time", lambda: time.time_ns() / 1e9)
    plane.skew_ms = -by_s * 1000
    plane.commands = [given()]
    polling.poll()
    assert polling.taken[0].deadline_ms == pytest.approx(1_000_000 + by_s * 1000, abs=500)


@pytest.mark.parametrize("bad", [None, 5, {}, {"command_id": "x"}, given(args=[]), given(lease_s="long")])
def test_a_command_that_cannot_be_read_does_not_stop_the_next(polling, plane, bad):
    plane.commands = [bad, given(command_id="c2")]
    polling.poll()
    assert [command.command_id for command in polling.taken] == ["c2"]


def test_a_server_that_says_nothing_at_once_is_not_asked_in_a_circle(polling, plane):
    plane.poll_s = 0.0
    assert polling.poll() > 0.5


def test_a_nudge_ends_the_waiting_after_an_outage(polling, plane):
    polling._backoff = Backoff(first_s=1000.0, max_s=1000.0)
    polling._connection.close()
    url, polling._connection = polling._connection, Connection("http://127.0.0.1:9")
    thread = threading.Thread(target=polling.run, daemon=True)
    thread.start()
    time.sleep(0.1)
    polling._connection = url
    plane.commands = [given()]
    polling.nudge()
    plane.wait(lambda: polling.taken)
    polling.stop()
    thread.join(5)
    assert not thread.is_alive()


def test_the_skew_of_the_clocks_is_measured(plane):
    plane.skew_ms = -5000
    assert measure_skew(Connection(plane.url)) == pytest.approx(-5000, abs=200)


def test_nobody_there_is_an_error_for_people():
    with pytest.raises(UnreachableError, match="refused"):
        measure_skew(Connection("http://127.0.0.1:9"))
