"""Ending process trees that do their best to survive: real processes."""

import os
import signal
import time
from pathlib import Path

import pytest
from middlewatch_agent import config, freezing, stopping, thawing
from middlewatch_agent.context import Command
from middlewatch_agent.launcher import processes
from middlewatch_agent.ranks import procfs

from tests.agent.launcher.stage import SLEEP, Cluster, kill, wait_for

STUBBORN = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:                                   # a child in a session of its own, orphaned, without the mark
    os.setsid()
    if os.fork() == 0:
        print("ready", flush=True)
        os.execve(sys.executable, [sys.executable, "-S", "-c", "import time; time.sleep(60)"], {})
    time.sleep(60)
time.sleep(60)
"""


@pytest.fixture
def node(tmp_path):
    made = Cluster(tmp_path)
    made.context.node, made.context.state_dir = "n01", tmp_path / "n01"
    yield made
    made.close()


def begin(node: Cluster, program: str, ranks: int = 1) -> list[int]:
    node.configure(program, ranks_per_node=ranks)
    node.start(nodes=("n01",))
    return [node.pid(rank) for rank in range(ranks)]


def stop(node: Cluster, grace_s: float = 0.2, **args: object):
    args = {"run": "demo", "attempt": 1, "grace_s": grace_s, **args}
    return stopping.Stopper(node.context)(Command(command_id="c", kind="ranks.stop", args=args))


def test_a_polite_rank_ends_within_its_grace_and_its_end_is_written_down(node):
    begin(node, SLEEP, ranks=2)
    outcome = stop(node, grace_s=5.0)
    assert outcome.state == "succeeded"
    assert outcome.data["stopped"] is True
    assert outcome.data["survivors"] == []
    assert [node.status(rank)["signal"] for rank in (0, 1)] == [signal.SIGTERM] * 2
    assert not processes.environ_of(node.status(0)["shim_pid"])


def test_children_that_left_their_session_and_lost_their_mark_are_ended_too(node):
    pid = begin(node, STUBBORN)[0]
    log = node.folder / "n01" / "logs" / "demo.1.0.log"
    wait_for(lambda: "ready" in log.read_text())
    outcome = stop(node)
    assert outcome.data["stopped"] is True
    told = outcome.data["ranks"]["0"]
    assert told["processes"] == told["ended"] >= 4  # rank, child, grandchild, shim
    assert node.status(0)["signal"] == signal.SIGKILL
    assert not processes.alive(pid, node.status(0)["start_ticks"])


def test_a_stopped_rank_is_killed_without_waiting_and_told_as_stopped(node):
    pid = begin(node, SLEEP)[0]
    os.kill(pid, signal.SIGSTOP)
    wait_for(lambda: node.living()[0].state == "T")
    outcome = stop(node, grace_s=60.0)
    assert outcome.data["ranks"]["0"]["stopped_before"] == 1
    assert outcome.data["stopped"] is True


def test_only_the_ranks_that_are_named_end(node):
    first, second = begin(node, SLEEP, ranks=2)
    assert stop(node, ranks=[1]).data["stopped"] is True
    assert [process.pid for process in node.living()] == [first]
    assert node.status(1)["pid"] == second


def test_to_stop_what_is_dead_already_succeeds(node):
    begin(node, SLEEP)
    stop(node)
    assert stop(node).data == {"stopped": True, "ranks": {}, "survivors": []}
    assert stop(node, attempt=7).data["stopped"] is True


def test_a_process_that_took_the_pid_of_a_shim_is_left_alone(node):
    begin(node, SLEEP)
    path = next(Path(node.folder / "n01" / "ranks").glob("demo.1.0.json"))
    path.write_text(path.read_text().replace(f'"shim_pid": {node.status(0)["shim_pid"]}', f'"shim_pid": {os.getpid()}'))
    assert stop(node).data["stopped"] is True  # and this test lives to see it


def test_who_survives_is_named_with_its_state(node, monkeypatch):
    pid = begin(node, SLEEP)[0]
    monkeypatch.setattr(stopping, "signal_process", lambda *_: None)
    monkeypatch.setattr(stopping, "KILL_WAIT_S", 0.1)
    monkeypatch.setattr(stopping, "SHIM_WAIT_S", 0.05)
    outcome = stop(node, grace_s=0.0)
    assert outcome.state == "failed"
    assert outcome.data["survivors"][0]["pid"] == pid
    assert outcome.output_tail.startswith(f"rank 0: process {pid} is sleeping")


@pytest.mark.parametrize("args", [{"grace_s": -1}, {"ranks": ["0"]}, {"signal": 9}])
def test_a_malformed_stop_is_refused(node, args):
    assert stop(node, **args).state == "refused"


def test_a_rank_is_frozen_for_a_drill_and_goes_on_by_itself(node):
    pid = begin(node, SLEEP)[0]
    args = {"run": "demo", "attempt": 1, "rank": 0, "length_s": 0.3}
    command = Command(command_id="c", kind="rank.freeze", args=args)
    assert freezing.Freezer(node.context)(command).data == {"frozen": 1, "length_s": 0.3}
    wait_for(lambda: procfs.look(pid).state == "T")
    wait_for(lambda: procfs.look(pid).state == "S")
    nobody = Command(command_id="d", kind="rank.freeze", args={**args, "rank": 5})
    assert freezing.Freezer(node.context)(nobody).state == "failed"


def test_a_frozen_rank_goes_on_also_where_the_agent_died_meanwhile(node):
    pid = begin(node, SLEEP)[0]
    args = {"run": "demo", "attempt": 1, "rank": 0, "length_s": 3.0}
    agent = os.fork()
    if agent == 0:
        freezing.Freezer(node.context)(Command(command_id="c", kind="rank.freeze", args=args))
        os._exit(0)
    os.waitpid(agent, 0)
    assert procfs.look(pid).state == "T"
    wait_for(lambda: procfs.look(pid).state == "S")


def test_nobody_waits_to_thaw_a_rank_that_was_killed(node, monkeypatch):
    pid = begin(node, SLEEP)[0]
    monkeypatch.setattr(thawing, "LOOK_S", 0.05)
    ticks = procfs.look(pid).start_ticks
    kill(pid)
    began = time.monotonic()
    thawing.main(["60", f"{pid}:{ticks}"])
    assert time.monotonic() - began < 30


def test_no_node_lets_a_rank_be_frozen_unless_its_own_settings_say_so():
    assert "rank.freeze" not in config.DEFAULT_COMMANDS
