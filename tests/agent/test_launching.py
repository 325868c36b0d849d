"""A head node's agent and a node's agent, with the launcher between them."""

import os
import signal
import sys
import time

from tests.agent.process import AgentProcess

LAUNCHER = """
scheduler = "local"
[runs.demo]
command = ["{python}", "-c", "import time; time.sleep(60)"]
ranks_per_node = 2
checkpoint_dir = "{folder}/checkpoints"
grace_s = 1.0
[nodes.n01]
state_dir = "{folder}/n01"
"""


def command(kind, command_id, **args):
    deadline_ms = time.time_ns() // 1_000_000 + 60_000
    return {
        "command_id": command_id,
        "kind": kind,
        "args": args,
        "lease_s": 15,
        "deadline_ms": deadline_ms,
        "only_for": "head",
    }


def give(plane, given):
    """Hand out a command and wait for its outcome."""
    plane.commands = [given]

    def final():
        results = [event["data"] for event in plane.of_kind("command.result")]
        mine = [data for data in results if data["command_id"] == given["command_id"]]
        return [data for data in mine if data["state"] not in {"accepted", "running"}]

    return plane.wait(final)[0]


def test_an_attempt_is_started_watched_looked_at_and_stopped_by_commands(tmp_path, plane):
    toml = tmp_path / "launcher.toml"
    toml.write_text(LAUNCHER.format(python=sys.executable, folder=tmp_path))
    config = f'launcher = "{toml}"\n'
    with (
        AgentProcess(tmp_path / "n01", plane.url, node="n01"),
        AgentProcess(tmp_path / "head", plane.url, node="head", token="head", config=config) as head,
    ):
        hellos = plane.wait_kind("node.hello", 2)
        assert any("launcher" in hello["data"]["capabilities"] for hello in hellos)
        start = command("attempt.start", "s1", run="demo", attempt=1, nodes=["n01"], resume={"step": 0})
        assert give(plane, start)["state"] == "succeeded"
        started = plane.wait_kind("rank.started", 2)
        assert plane.wait_kind("attempt.started")[0]["data"]["world_size"] == 2
        os.kill(started[0]["data"]["pid"], signal.SIGKILL)
        assert plane.wait_kind("rank.exited")[0]["data"]["signal"] == 9
        head.kill()
        head.start()
        assert give(plane, command("attempt.stop", "s2", run="demo", attempt=1, grace_s=1.0))["state"] == "succeeded"
        plane.wait_kind("rank.exited", 2)
        assert plane.wait_kind("attempt.exited")[0]["data"]["reason"] == "killed"
    assert len(plane.of_kind("attempt.started")) == len(plane.of_kind("attempt.exited")) == 1
