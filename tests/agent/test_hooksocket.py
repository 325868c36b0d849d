import json
import socket
import stat

import pytest
from middlewatch_agent.hooksocket import MAX_DATAGRAM, PER_TURN, HookSocket

from tests.agent.process import step


@pytest.fixture
def heard(tmp_path):
    events = []
    hooks = HookSocket(tmp_path, events.extend)
    hooks.events = events
    yield hooks
    hooks.close()


def send(hooks, *datagrams):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as hook:
        hook.setblocking(False)
        hook.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        hook.connect(str(hooks.path))
        for datagram in datagrams:
            hook.send(datagram if isinstance(datagram, bytes) else json.dumps(datagram).encode())
    hooks.read()


def test_a_step_becomes_an_event(heard):
    send(heard, step(7, loss=1.5))
    assert heard.events == [step(7, loss=1.5)]


def test_only_the_owner_may_speak_to_the_socket(heard):
    assert stat.S_IMODE(heard.path.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "bad",
    [
        b"",
        b"\xff\xfe",
        b"null",
        b"[]",
        b"{",
        b"[" * 5000,
        b'{"kind":"rank.step","at_ms":1,"run":"r","attempt":1,"rank":0,"data":{"loss":NaN}}',
        {**step(1), "run": ""},
        {**step(1), "run": "r" * 101},
        {**step(1), "rank": -1},
        {**step(1), "rank": "0"},
        {**step(1), "attempt": 1 << 40},
        {**step(1), "at_ms": -5},
        {**step(1), "data": []},
        {key: value for key, value in step(1).items() if key != "rank"},
        json.dumps(step(1, text="x" * MAX_DATAGRAM)).encode(),
    ],
)
def test_a_malformed_datagram_is_counted_and_the_next_one_heard(heard, bad):
    send(heard, bad, step(2))
    assert heard.malformed == 1
    assert [event["data"]["step"] for event in heard.events] == [2]


@pytest.mark.parametrize(
    "kind", ["rank.exited", "rank.started", "attempt.exited", "command.result", "node.hello", "node.log"]
)
def test_a_rank_cannot_forge_what_only_the_agent_may_say(heard, kind):
    send(heard, {**step(1), "kind": kind})
    assert heard.malformed == 1
    assert heard.events == []


def test_the_loop_is_given_back_after_a_bounded_number(heard, monkeypatch):
    monkeypatch.setattr("middlewatch_agent.hooksocket.PER_TURN", 3)
    send(heard, *[step(n) for n in range(5)])
    assert len(heard.events) == 3
    heard.read()
    assert len(heard.events) == 5
    assert PER_TURN > 0


def test_a_socket_left_behind_by_a_killed_agent_is_replaced(tmp_path, heard):
    second = HookSocket(tmp_path, heard.events.extend)
    send(second, step(1))
    second.close()
    assert heard.events == [step(1)]
