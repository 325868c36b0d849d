"""Ranks that are forked from a process which has imported their libraries already."""

import json
import os
import signal

import pytest
from middlewatch_agent import warm
from middlewatch_agent.launcher import processes

from tests.agent.launcher.stage import SLEEP, kill, wait_for

SHOW = """
import json, os, sys
print(json.dumps({
    "environ": dict(os.environ), "argv": sys.argv, "name": __name__, "file": __file__, "warm": "wave" in sys.modules,
    "parent": os.getppid(), "stdin": sys.stdin.read(), "folder": os.getcwd(),
}), flush=True)
"""
FAIL = "import sys\nclass Lost(Exception): pass\nraise Lost('peer')"


@pytest.fixture
def warmed(cluster):
    def configure(program: str, preload: tuple[str, ...] = ("wave",)):
        cluster.configure(program, preload=preload)
        return cluster

    return configure


def log(cluster, rank: int = 0, attempt: int = 1) -> str:
    return next(cluster.folder.glob(f"n0*/logs/demo.{attempt}.{rank}.log")).read_text()


def test_a_warm_rank_is_where_a_cold_one_would_be(warmed):
    cluster = warmed(SHOW)
    cluster.start(nodes=("n01",))
    cluster.exited()
    seen = json.loads(log(cluster))
    assert seen["warm"] is True
    assert (seen["name"], seen["file"], seen["argv"]) == ("__main__", str(cluster.program), [str(cluster.program)])
    assert (seen["environ"]["RANK"], seen["environ"]["MIDDLEWATCH_NODE"]) == ("0", "n01")
    assert warm.SHOWN not in seen["environ"]
    assert (seen["stdin"], seen["folder"]) == ("", str(cluster.folder))
    assert seen["parent"] == cluster.status(0)["shim_pid"]


@pytest.mark.parametrize(
    ("program", "data"),
    [
        ("", {"reason": "completed", "exit_code": 0}),
        ("raise SystemExit(7)", {"reason": "failed", "exit_code": 7}),
        (FAIL, {"reason": "failed", "exit_code": 1}),
    ],
)
def test_its_end_is_the_end_of_the_script(warmed, program, data):
    cluster = warmed(program)
    cluster.start(nodes=("n01",))
    assert cluster.exited()["data"] == data
    assert ("Lost: peer" in log(cluster)) is (program == FAIL)


def test_it_is_found_stopped_and_proven_dead_like_any_other(warmed):
    cluster = warmed(SLEEP)
    cluster.start()
    assert {cluster.pid(0), cluster.pid(1)} == {process.pid for process in cluster.living()}
    os.kill(cluster.pid(1), signal.SIGSTOP)
    assert cluster.stop().data == {"stopped": True, "survivors": []}
    assert cluster.living() == []
    assert cluster.exited()["data"]["reason"] == "killed"


def test_it_dies_with_its_shim(warmed):
    cluster = warmed(SLEEP)
    cluster.start(nodes=("n01",))
    rank = cluster.pid(0)
    kill(cluster.status(0)["shim_pid"])
    wait_for(lambda: not processes.alive(rank, cluster.status(0)["start_ticks"]))
    assert cluster.exited()["data"]["reason"] == "failed"


def test_it_lives_on_when_the_launcher_and_the_warm_process_are_gone(warmed):
    cluster = warmed(SLEEP)
    cluster.start(nodes=("n01",))
    rank = cluster.pid(0)
    kill(cluster.launcher._spawner._warm["demo"]._process.pid)
    cluster.open()
    assert [process.pid for process in cluster.living()] == [rank]
    assert cluster.start(1, nodes=("n01",)).state == "succeeded"
    cluster.stop()
    assert cluster.exited()["data"]["reason"] == "killed"


def test_the_next_attempt_is_forked_from_the_same_process(warmed):
    cluster = warmed(SHOW)
    for attempt in (1, 2):
        cluster.start(attempt, nodes=("n01",))
        wait_for(lambda: cluster.service.tell() or len(cluster.context.of("attempt.exited")) == attempt)  # noqa: B023
    assert [json.loads(log(cluster, attempt=attempt))["warm"] for attempt in (1, 2)] == [True, True]


@pytest.mark.parametrize("module", ["no_such_module", "antigravity_missing.part"])
def test_a_module_that_cannot_be_imported_costs_the_warmth_and_not_the_start(warmed, module):
    cluster = warmed(SHOW, preload=(module,))
    cluster.start(nodes=("n01",))
    assert cluster.exited()["data"]["reason"] == "completed"
    assert json.loads(log(cluster))["warm"] is False


def test_an_import_that_starts_threads_costs_the_warmth(warmed, tmp_path):
    (tmp_path / "busy.py").write_text(
        "import threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()"
    )
    cluster = warmed(SHOW, preload=("busy", "wave"))
    cluster.start(nodes=("n01",))
    cluster.exited()
    assert json.loads(log(cluster))["warm"] is False


def test_an_environment_that_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="fit"):
        warm.Shown().show({"MIDDLEWATCH_RUN": "x" * warm.SHOWN_BYTES})
