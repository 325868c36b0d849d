import http.client
import json
import socket
import threading
import time
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection, transaction

from controlplane.events.streams import Refusal
from controlplane.fleet import actions as fleet
from controlplane.fleet import commands as fleet_commands
from controlplane.fleet.models import Command
from controlplane.ingest import board, endpoints, leasing
from tests.events.factories import beat, hello
from tests.patience import within

ARGS = {"run": "demo", "attempt": 1, "what": ["stacks"], "budget_s": 3.0}


def send(node="n01", key="k1", deadline_s=60.0):
    now = datetime.now(UTC)
    return fleet.send_command(node, "collect", ARGS, key=key, deadline=now + timedelta(seconds=deadline_s), now=now)


def poll(server, token, wait_s=0.0):
    answer = server.request("GET", f"/api/v1/commands?wait_s={wait_s}", token=token)
    assert answer.status == 200
    return answer.body["commands"]


def test_a_waiting_command_is_handed_out_with_everything_the_agent_needs(server, token):
    sent = send()
    handed = poll(server, token, 5)
    assert handed == [
        {
            "command_id": str(sent.pk), "kind": "collect", "args": ARGS, "lease_s": 15.0,
            "deadline_ms": int(sent.deadline.timestamp() * 1000),
        }
    ]  # fmt: skip


@pytest.fixture
def looks_rarely(monkeypatch):
    """Let the board see of itself what waits so rarely that nobody is served by it."""
    monkeypatch.setattr(board, "LOOK_EVERY_S", 60.0)


def test_a_poll_that_hangs_is_woken_the_moment_a_command_is_committed(looks_rarely, server, token):
    found = []

    def wait():
        found.append(poll(server, token, 20))

    poller = threading.Thread(target=wait)
    poller.start()
    time.sleep(0.5)
    send()
    poller.join(15)
    assert len(found[0]) == 1


def test_a_poll_without_commands_ends_when_its_time_is_up(server, token):
    began = time.monotonic()
    assert poll(server, token, 0.3) == []
    assert 0.25 < time.monotonic() - began < within(3)


def test_a_leased_command_is_not_handed_out_again_while_the_lease_lasts(server, token):
    send()
    assert len(poll(server, token, 5)) == 1
    assert poll(server, token, 1.5) == []


def test_a_command_is_handed_out_again_after_its_lease(server, token, monkeypatch):
    monkeypatch.setattr(fleet_commands, "LEASE", timedelta(seconds=0.5))
    send()
    assert len(poll(server, token, 5)) == 1
    assert len(poll(server, token, 5)) == 1
    assert Command.objects.get().lease_count == 2


def test_a_command_past_its_deadline_is_not_handed_out(server, token):
    send(deadline_s=-1)
    assert poll(server, token, 1.5) == []


def test_an_agent_sees_only_its_own_commands(server, token, enrol):
    enrol("n02")
    send("n02")
    assert poll(server, token, 1.5) == []


def test_an_acknowledgement_tells_how_many_commands_wait(server, token):
    send(key="a")
    send(key="b")
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline and server.post(beat(1), token=token).body["commands_waiting"] != 2:
        time.sleep(0.05)
    assert server.post(beat(1), token=token).body["commands_waiting"] == 2


def test_a_wait_that_is_no_number_is_malformed(server, token):
    for wait_s in ("soon", "-1", "nan", "1e9"):
        answer = server.request("GET", f"/api/v1/commands?wait_s={wait_s}", token=token)
        assert (answer.status, answer.body["field"]) == (400, "wait_s")


def test_a_poll_whose_agent_went_away_takes_no_command_with_it(server, token):
    link = socket.create_connection(("127.0.0.1", server.port))
    link.sendall(
        f"GET /api/v1/commands?wait_s=20 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\r\n".encode()
    )
    time.sleep(0.3)
    link.close()
    time.sleep(0.2)
    send()
    assert len(poll(server, token, 5)) == 1
    assert Command.objects.get().lease_count == 1


def test_hundreds_of_agents_wait_on_few_connections(server, enrol):
    """Each poll costs an event, not a connection to PostgreSQL."""
    bought = {f"n{n:03}": enrol(f"n{n:03}") for n in range(150)}
    links = {}
    for node, token in bought.items():
        links[node] = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        links[node].request("GET", "/api/v1/commands?wait_s=25", headers={"Authorization": f"Bearer {token}"})
    time.sleep(0.5)
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE application_name = 'middlewatch-ingest' AND datname = current_database()"
        )
        assert cursor.fetchone()[0] <= 5
    send("n077")
    answer = links["n077"].getresponse()
    assert b"collect" in answer.read()
    for link in links.values():
        link.close()


def ask_as(server, token, incarnation, wait_s=3.0):
    return server.request("GET", f"/api/v1/commands?wait_s={wait_s}&incarnation={incarnation}", token=token)


def test_a_life_that_a_newer_one_followed_is_handed_nothing(server, token):
    server.post(hello(1), token=token, incarnation="old")
    server.post(hello(1), token=token, incarnation="new")
    send()
    answer = ask_as(server, token, "old")
    assert (answer.status, answer.body["error"]) == (409, "superseded")
    assert len(ask_as(server, token, "new").body["commands"]) == 1


def test_another_machine_under_the_name_is_handed_nothing(server, token):
    server.post(hello(1), token=token, incarnation="first")
    server.post(hello(1, machine_id="m2"), token=token, incarnation="second")
    send()
    answer = ask_as(server, token, "second")
    assert (answer.status, answer.body["error"]) == (409, "identity_conflict")
    assert len(ask_as(server, token, "first").body["commands"]) == 1


def test_a_life_of_which_nothing_is_known_yet_is_handed_its_commands(server, token):
    send()
    assert len(ask_as(server, token, "young").body["commands"]) == 1


def test_an_incarnation_that_is_no_name_is_malformed(server, token):
    for incarnation in ("x" * 65, "%00", "%0a"):
        answer = ask_as(server, token, incarnation, 0)
        assert (answer.status, answer.body["field"]) == (400, "incarnation")


def test_polls_of_a_node_are_bounded_and_one_whose_token_is_revoked_gets_nothing(server, token, monkeypatch):
    answers, boards, polls = [], [], board.Board.polls
    monkeypatch.setattr(board.Board, "polls", lambda self, node: boards.append(self) or polls(self, node))
    poller = threading.Thread(
        target=lambda: answers.append(server.request("GET", "/api/v1/commands?wait_s=10", token=token))
    )
    poller.start()
    until = time.monotonic() + within(5)
    while not (boards and polls(boards[0], "n01")):
        assert time.monotonic() < until, "the poll does not hang"
        time.sleep(0.01)
    monkeypatch.setattr(endpoints, "MAX_POLLS", 1)
    assert server.request("GET", "/api/v1/commands?wait_s=10", token=token).status == 429
    fleet.revoke("n01", datetime.now(UTC))
    sent = send()
    poller.join(15)
    assert answers[0].status == 401
    sent.refresh_from_db()
    assert sent.lease_count == 0


def test_polls_that_wake_together_are_served_by_few_commits(server, enrol, monkeypatch):
    """A commit costs a flush to disk: one for each node of a large attempt would be seconds."""
    asked, lease = [], fleet.lease_commands
    monkeypatch.setattr(fleet, "lease_commands", lambda nodes, now: asked.append(len(nodes)) or lease(nodes, now))
    links = {}
    for node in (f"n{n:03}" for n in range(60)):
        links[node] = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        links[node].request("GET", "/api/v1/commands?wait_s=25", headers={"Authorization": f"Bearer {enrol(node)}"})
    with transaction.atomic():
        sent = {node: str(send(node, key=node).pk) for node in links}
    got = {node: json.loads(link.getresponse().read())["commands"] for node, link in links.items()}
    assert {node: [command["command_id"] for command in given] for node, given in got.items()} == {
        node: [command_id] for node, command_id in sent.items()
    }
    assert sum(asked) == len(links)
    assert len(asked) < len(links) / 3
    for link in links.values():
        link.close()


def test_of_the_polls_of_a_node_one_gets_its_command_and_an_unfit_one_leaves_it(server, token):
    server.post(hello(1), token=token, incarnation="old")
    server.post(hello(1), token=token, incarnation="new")
    sent = send()
    old, first, second = leasing._lease([("n01", "old"), ("n01", "new"), ("n01", "new")])
    assert (old.refusal, list(old.commands)) == (Refusal.SUPERSEDED, [])
    assert [command.pk for command in first.commands] == [sent.pk]
    assert (second.refusal, list(second.commands)) == (None, [])
