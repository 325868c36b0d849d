"""The hooks' socket: what arrives, and that trouble never reaches the training."""

import json
import socket
from pathlib import Path

import pytest
from middlewatch_agent.hooks import reporter as module
from middlewatch_agent.hooks.reporter import Reporter


@pytest.fixture
def agent(tmp_path):
    """A stand-in for the agent's socket: `open`, `read`, `close`."""
    return Agent(str(tmp_path / "agent.sock"))


class Agent:
    def __init__(self, path: str) -> None:
        self.path = path
        self.open()

    def open(self) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.path)
        self.socket.setblocking(False)

    def close(self) -> None:
        self.socket.close()
        Path(self.path).unlink()

    def read(self) -> list[dict]:
        found = []
        while True:
            try:
                found.append(json.loads(self.socket.recv(1 << 16)))
            except BlockingIOError:
                return found


@pytest.fixture
def reporter(agent, monkeypatch):
    monkeypatch.setattr(module, "RECONNECT_S", 0.0)
    return Reporter(agent.path, run="demo", attempt=3, rank=2)


def test_an_observation_arrives_as_the_agent_expects_it(agent, reporter):
    reporter.send("rank.step", {"step": 7, "loss": 1.5})
    (found,) = agent.read()
    assert found.pop("at_ms") > 1_700_000_000_000
    assert found == {"kind": "rank.step", "run": "demo", "attempt": 3, "rank": 2, "data": {"step": 7, "loss": 1.5}}


@pytest.mark.parametrize(
    ("value", "word"),
    [(float("nan"), "nan"), (float("inf"), "inf"), (float("-inf"), "-inf"), ([float("nan")], ["nan"])],
)
def test_a_number_that_is_not_finite_is_sent_as_a_word(agent, reporter, value, word):
    reporter.send("rank.step", {"loss": value})
    assert agent.read()[0]["data"] == {"loss": word}


def test_a_value_without_a_json_form_is_dropped_and_counted(agent, reporter):
    reporter.send("rank.step", {"loss": object()})
    assert (agent.read(), reporter.dropped) == ([], 1)


def test_a_datagram_that_is_too_large_is_dropped_and_counted(agent, reporter):
    reporter.send("checkpoint", {"path": "x" * module.MAX_DATAGRAM_BYTES})
    assert (agent.read(), reporter.dropped) == ([], 1)


def test_without_an_agent_steps_are_dropped_and_what_matters_waits_for_it(agent, reporter):
    agent.close()
    reporter.send("rank.step", {"step": 1})
    reporter.send("checkpoint", {"step": 1, "state": "complete"})
    assert reporter.dropped == 1
    agent.open()
    reporter.send("rank.step", {"step": 2})
    assert [event["kind"] for event in agent.read()] == ["checkpoint", "rank.step"]


def test_an_agent_that_was_restarted_is_found_again(agent, reporter):
    reporter.send("rank.step", {"step": 1})
    agent.close()
    reporter.send("rank.step", {"step": 2})
    agent.open()
    reporter.send("rank.step", {"step": 3})
    assert [event["data"]["step"] for event in agent.read()] == [3]


def test_a_full_socket_drops_and_counts(agent, reporter):
    for step in range(2000):
        reporter.send("rank.step", {"step": step})
    assert reporter.dropped > 0
    assert reporter.sent + reporter.dropped == 2000
    assert len(agent.read()) == reporter.sent


def test_what_waits_is_bounded(agent, reporter):
    agent.close()
    for step in range(module.MAX_KEPT + 5):
        reporter.send("checkpoint", {"step": step})
    agent.open()
    reporter.close()
    assert reporter.dropped == 5 + reporter_waiting(agent)


def reporter_waiting(agent: Agent) -> int:
    """How many of the kept ones did not fit into the socket's queue before `close` gave up."""
    arrived = agent.read()
    assert arrived[0]["data"]["step"] == 5
    return module.MAX_KEPT - len(arrived)
