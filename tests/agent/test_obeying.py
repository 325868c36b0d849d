"""A real agent process carries out what the control plane asks of it, and refuses what its own file leaves out."""

import os
import signal
import subprocess
import sys
import time

import pytest

from tests.agent.launcher.stage import Cluster
from tests.agent.process import AgentProcess
from tests.agent.test_switching import LOOP

CHECK = '[[checks]]\nname = "disk"\ncommand = ["/bin/sh", "-c", "echo fine"]\n'


@pytest.fixture
def cluster(tmp_path):
    made = Cluster(tmp_path)
    yield made
    made.close()


def ask(plane, kind: str, **args: object) -> dict:
    """Leave a command and give its final result."""
    command_id = f"{kind}-{time.monotonic_ns()}"
    deadline_ms = int((time.time() + 30) * 1000)
    plane.commands = [{"command_id": command_id, "kind": kind, "args": args, "lease_s": 30, "deadline_ms": deadline_ms}]

    def final() -> dict | None:
        told = [event["data"] for event in plane.of_kind("command.result")]
        return next((one for one in told if one["command_id"] == command_id and "output_tail" in one), None)

    return plane.wait(final)


def test_an_agent_saves_checks_bundles_and_stops_on_demand(plane, cluster, tmp_path):
    with AgentProcess(tmp_path / "n01", plane.url, config='gpu = "none"\n' + CHECK):
        cluster.configure(LOOP)
        cluster.start(nodes=("n01",))
        pid = cluster.pid(0)
        plane.wait_kind("rank.started")
        saved = ask(plane, "switch.arm", run="demo", attempt=1, what="save")
        assert saved["data"]["acknowledged"] == [0]
        assert ask(plane, "check.run", check="disk")["data"]["outcome"] == "pass"
        assert plane.of_kind("check.result")[0]["data"]["check"] == "disk"
        assert ask(plane, "support.bundle", run="demo", attempt=1)["data"]["bytes"] > 0
        ended = ask(plane, "ranks.stop", run="demo", attempt=1, grace_s=5)
        assert (ended["state"], ended["data"]["stopped"]) == ("succeeded", True)
        assert plane.wait_kind("rank.exited")[0]["data"]["pid"] == pid
        hello = plane.of_kind("node.hello")[0]["data"]["capabilities"]
        assert {"command:ranks.stop", "command:switch.arm", "check:disk"} <= set(hello)
        assert "command:attempt.start" not in hello


def test_a_node_that_only_looks_kills_nothing_whoever_asks(plane, cluster, tmp_path):
    with AgentProcess(tmp_path / "n01", plane.url, config='commands = ["collect"]\n'):
        cluster.configure(LOOP)
        cluster.start(nodes=("n01",))
        pid = cluster.pid(0)
        refused = ask(plane, "ranks.stop", run="demo", attempt=1)
        assert refused["state"] == "refused"
        assert 'commands = ["collect","ranks.stop"]' in refused["output_tail"]
        assert [process.pid for process in cluster.living()] == [pid]


def test_a_job_that_knows_nothing_of_us_is_looked_at_and_stopped_all_the_same(plane, tmp_path):
    watch = '[[watch]]\nrun = "legacy"\ncmdline = "unlikely-name-four"\n'
    program = [sys.executable, "-S", "-c", "import time; 'unlikely-name-four'; time.sleep(60)"]
    with subprocess.Popen(program, env={**os.environ, "RANK": "3"}) as job:
        with AgentProcess(tmp_path / "n01", plane.url, config=watch):
            plane.wait_kind("rank.started")
            looked = ask(plane, "collect", run="legacy", attempt=1, what=["stacks"], budget_s=2)
            assert looked["data"]["ranks"]["3"]["proc_state"] == "S"
            ended = ask(plane, "ranks.stop", run="legacy", attempt=1, grace_s=5)
            assert ended["data"]["ranks"]["3"]["ended"] == 1
        assert job.wait() == -signal.SIGTERM
