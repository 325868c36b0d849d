"""Collecting from real processes of a node."""

import contextlib
import json
import os
import signal
import socket
import sys
import time
from pathlib import Path

import msgspec
import pytest
from middlewatch_agent import collect
from middlewatch_agent.collect import outside
from middlewatch_agent.context import Command
from middlewatch_agent.hooks import worker

from tests.agent.launcher.stage import Cluster, wait_for
from tests.patience import within

WAITING = "import time\ndef wait_for_ever():\n    time.sleep(60)\nwait_for_ever()"
HOOKED = (
    "import os, sys, time\nsys.path[:] = {path!r}\n"
    "from middlewatch_agent.hooks import worker\nworker.start(os.environ['MIDDLEWATCH_WORKER_SOCKET'])\n" + WAITING
)

PATH = [str(Path(collect.__file__).parents[2]), str(Path(msgspec.__file__).parents[1]), *sys.path]


@pytest.fixture
def node(tmp_path):
    """One node with one rank; `run` starts it and gives its pid."""
    cluster = Cluster(tmp_path)
    cluster.context.state_dir = tmp_path / "n01"

    def run(program: str, ranks: int = 1) -> int:
        cluster.configure(program, ranks_per_node=ranks)
        cluster.start(nodes=("n01",))
        pids = [cluster.pid(rank) for rank in range(ranks)]
        wait_for(lambda: all(Path(f"/proc/{pid}/wchan").exists() for pid in pids))
        return pids[0]

    cluster.run = run
    yield cluster
    cluster.close()


def ask(node, **args):
    good = {"run": "demo", "attempt": 1, "what": ["stacks", "collectives"], "budget_s": 3.0}
    command = Command(command_id="c", kind="collect", args=good | args)
    return collect.Collector(node.context)(command)


def stacks(node) -> dict[str, dict]:
    return {event["data"]["tool"]: event["data"] for event in node.context.of("rank.stack")}


def test_the_kernel_speaks_for_every_rank(node):
    node.run(WAITING)
    outcome = ask(node)
    assert outcome.data["ranks"]["0"]["proc_state"] == "S"
    assert stacks(node)["proc"]["frames"][0] == "state S (sleeping)"
    event = node.context.of("rank.stack")[0]
    assert (event["run"], event["attempt"], event["rank"]) == ("demo", 1, 0)


def test_a_stopped_rank_answers_nothing_and_that_is_the_result(node):
    pid = node.run(HOOKED.format(path=PATH))
    wait_for(lambda: outside._catches(pid, signal.SIGUSR1))
    os.kill(pid, signal.SIGSTOP)
    wait_for(lambda: node.living()[0].state == "T")
    began = time.monotonic()
    outcome = ask(node)
    assert time.monotonic() - began < within(2.0)
    assert outcome.data == {"ranks": {"0": {"proc_state": "T", "answered": False}}}
    assert stacks(node)["proc"]["frames"][0] == "state T (stopped)"
    assert stacks(node)["worker_server"]["ok"] is False


def test_ranks_whose_servers_take_the_question_and_never_answer_cost_the_budget_once(node):
    node.run(WAITING, ranks=3)
    with contextlib.ExitStack() as servers:
        for rank in range(3):
            path = node.status(rank)["worker_socket"]
            Path(path).parent.mkdir(exist_ok=True)
            mute = servers.enter_context(socket.socket(socket.AF_UNIX))
            mute.bind(path)
            mute.listen()
            os.kill(node.pid(rank), signal.SIGSTOP)
        wait_for(lambda: all(rank.state == "T" for rank in node.living()))
        began = time.monotonic()
        outcome = ask(node, budget_s=1.0)
    assert time.monotonic() - began < 1.0 + within(0.6)
    assert [found["answered"] for found in outcome.data["ranks"].values()] == [False] * 3


@pytest.mark.skipif(not Path(sys.executable).with_name("py-spy").exists(), reason="needs py-spy")
def test_what_is_read_of_a_stopped_rank_is_told_and_is_no_answer(node):
    pid = node.run(WAITING)
    wait_for(lambda: b"python" in Path(f"/proc/{pid}/cmdline").read_bytes())
    wait_for(
        lambda: outside.by_py_spy(next(collect.live_ranks(node.context.state_dir / "ranks", "demo", 1)), timeout_s=2.0)
    )
    os.kill(pid, signal.SIGSTOP)
    wait_for(lambda: node.living()[0].state == "T")
    assert ask(node).data["ranks"]["0"] == {"proc_state": "T", "answered": False}
    assert stacks(node)["py-spy"]["ok"] is False
    assert any("wait_for_ever" in frame for frame in stacks(node)["py-spy"]["frames"])


def test_a_rank_with_hooks_but_no_server_is_asked_by_signal(node):
    pid = node.run(HOOKED.format(path=PATH))
    wait_for(lambda: outside._catches(pid, signal.SIGUSR1))
    outcome = ask(node)
    assert outcome.data["ranks"]["0"]["answered"] is True
    assert stacks(node)["faulthandler"]["frames"][0].startswith("wait_for_ever (")
    assert node.pid(0) == pid


def test_a_rank_without_hooks_is_never_sent_a_signal_it_would_die_of(node):
    pid = node.run(WAITING)
    Path(node.status(0)["worker_socket"] + worker.STACKS_SUFFIX).write_text("")
    ask(node)
    assert node.living()[0].pid == pid


@pytest.mark.skipif(not Path(sys.executable).with_name("py-spy").exists(), reason="needs py-spy")
def test_a_rank_without_hooks_is_read_from_outside(node):
    node.run(WAITING)
    wait_for(lambda: b"python" in Path(f"/proc/{node.pid(0)}/cmdline").read_bytes())
    outcome = ask(node)
    assert outcome.data["ranks"]["0"]["answered"] is True
    assert any(frame.startswith("wait_for_ever (") for frame in stacks(node)["py-spy"]["frames"])


def test_ranks_of_other_attempts_and_dead_ones_are_not_asked(node):
    node.configure("")
    node.start(nodes=("n01",))
    node.exited()
    assert ask(node).data == {"ranks": {}}
    assert ask(node, attempt=2).data == {"ranks": {}}


def test_a_rank_that_vanished_with_its_shim_is_told_as_gone(node):
    node.run(WAITING)
    os.kill(node.status(0)["shim_pid"], signal.SIGKILL)
    wait_for(lambda: not node.living())
    found = ask(node).data["ranks"]["0"]
    assert found["proc_state"] in {"X", "Z"}
    assert found["answered"] is False


@pytest.mark.parametrize("args", [{"what": ["rm"]}, {"budget_s": 0}, {"budget_s": 1e9}, {"run": 3}, {"path": "/etc"}])
def test_a_malformed_command_is_refused(node, args):
    outcome = ask(node, **args)
    assert outcome.state == "refused"
    assert next(iter(args)) in outcome.output_tail


def test_a_broken_status_file_hides_no_other_rank(node):
    node.run(WAITING)
    for name, text in (("a.json", "{"), ("b.json", json.dumps({"run": "demo", "pid": "x"}))):
        (node.context.state_dir / "ranks" / name).write_text(text)
    assert list(ask(node).data["ranks"]) == ["0"]
