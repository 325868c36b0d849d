"""Two agents under one name: one of them speaks, the other is told so, and neither acts for the other."""

import json
import shutil
import time
import uuid

import pytest
import urllib3

from tests.trouble.world import batch, eventually

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("world")]


@pytest.fixture
def twin(yard, tmp_path):
    """Send what another agent with the same token would."""
    token = (yard.cluster.state("n04") / "token").read_text().strip()
    made = Twin(yard.url, "n04", token)
    yield made
    settle(yard, made)


def settle(yard, twin):
    """Let the minutes go by for which a name stays disputed: without n04 other stories have no spare."""
    yard.rows(
        "UPDATE events_stream SET last_seen_at = last_seen_at - interval '1 hour' WHERE incarnation = %s RETURNING 1",
        twin.incarnation,
    )
    eventually(lambda: not node(yard, twin.node)["identity_conflict"], "the dispute does not end", 30)


class Twin:
    def __init__(self, url, node, token):
        self.url, self.node, self.token = url, node, token
        self.incarnation, self.seq = uuid.uuid4().hex, 0

    def say(self, kind, **data):
        self.seq += 1
        body = {"seq": self.seq, "at_ms": time.time_ns() // 1_000_000, "kind": kind, "data": data}
        return self.post([body])

    def post(self, events):
        return self.ask("POST", "/api/v1/ingest", batch(self.node, self.incarnation, events))

    def ask(self, method, path, body=None):
        headers = {"Authorization": f"Bearer {self.token}"}
        answer = urllib3.request(method, self.url + path, body=body, headers=headers, retries=False, timeout=40)
        return answer.status, json.loads(answer.data)


def node(yard, name):
    return yard.client.get(f"/nodes/{name}")


def test_another_machine_under_the_name_of_a_living_one_is_refused_and_flagged(yard, twin):
    status, answer = twin.say("node.hello", hostname="other", hardware={"machine_id": "another"}, capabilities=[])
    assert (status, answer["error"]) == (409, "identity_conflict")
    eventually(lambda: node(yard, "n04")["identity_conflict"], "the conflict is not shown", 20)
    status, answer = twin.say("node.heartbeat", uptime_s=1.0)
    assert (status, answer["error"]) == (409, "identity_conflict")
    stored = yard.rows("SELECT kind FROM events_event WHERE incarnation = %s", twin.incarnation)
    assert stored == [("node.hello",)]


def test_another_machine_is_handed_no_command_of_the_one_that_holds_the_name(yard, twin):
    yard.kill_agent("n04")
    try:
        twin.say("node.hello", hostname="other", hardware={"machine_id": "another"}, capabilities=[])
        command = leave_command(yard, "n04")
        status, answer = twin.ask("GET", f"/api/v1/commands?wait_s=5&incarnation={twin.incarnation}")
        assert (status, answer["error"]) == (409, "identity_conflict")
    finally:
        yard.start_agent("n04")
    query = "SELECT 1 FROM events_event WHERE kind = 'command.result' AND data->>'command_id' = %s"
    eventually(lambda: yard.rows(query, str(command)), "its own agent did not get it", 30)


def leave_command(yard, node):
    command = uuid.uuid4()
    yard.rows(
        """INSERT INTO fleet_command
           (id, node_id, kind, args, idempotency_key, state, created_at, deadline, lease_count, result)
           SELECT %s, id, 'collect', '{"run": "none", "attempt": 1, "what": ["stacks"], "budget_s": 1.0}', %s,
           'pending', now(), now() + interval '1 minute', 0, '{}' FROM fleet_node WHERE name = %s RETURNING id""",
        command, str(command), node,
    )  # fmt: skip
    return command


def test_a_copied_state_folder_takes_the_name_over_and_the_older_agent_falls_silent(yard, tmp_path):
    """The same machine, so the newer life wins; what the older one spools is not taken for the newer one's."""
    old = yard.cluster.state("n04")
    copy = yard.home / "nodes" / "n04-copy"
    shutil.rmtree(copy, ignore_errors=True)
    copy.mkdir(mode=0o700)
    for name in ("token", "agent.toml"):
        shutil.copy(old / name, copy / name)
    yard.start_agent_at("n04-copy", copy)
    try:
        eventually(
            lambda: "a newer agent runs under this name" in (yard.home / "agent-n04.log").read_text(),
            "the older agent was not told", 30,
        )  # fmt: skip
        since = yard.rows("SELECT max(id) FROM events_event")[0][0]
        eventually(lambda: len(beats(yard, "n04", since)) >= 3, "nobody speaks under the name", 30)
        assert len(set(beats(yard, "n04", since))) == 1
    finally:
        yard.kill_agent("n04-copy")
        yard.kill_agent("n04")
        yard.restart_agent("n04")


def beats(yard, node, since):
    """Return the life behind each heartbeat after an event."""
    query = "SELECT incarnation FROM events_event WHERE node = %s AND kind = 'node.heartbeat' AND id > %s"
    return [row[0] for row in yard.rows(query, node, since)]
