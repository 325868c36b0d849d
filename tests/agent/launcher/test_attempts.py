"""Starting, stopping and reporting attempts on local nodes."""

import errno
import json
import os
import signal
import threading

import pytest
from middlewatch_agent.launcher import plan, processes
from middlewatch_agent.launcher.records import Records

from tests.agent.launcher.stage import kill, wait_for

DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(60)"
FAMILY = "import os, time; os.fork() or os.setsid(); time.sleep(60)"
SHOW = "import json, os; print(json.dumps(dict(os.environ)), flush=True)"


def test_every_rank_finds_its_place_in_its_environment(cluster):
    cluster.configure(SHOW, ranks_per_node=2)
    outcome = cluster.start(nodes=("n02", "n01"))
    assert outcome.data == {"job_id": "demo.1", "world_size": 4}
    cluster.exited()
    seen = [json.loads((cluster.folder / node / "logs" / f"demo.1.{rank}.log").read_text())
            for rank, node in enumerate(("n02", "n02", "n01", "n01"))]  # fmt: skip
    assert [(e["RANK"], e["LOCAL_RANK"], e["MIDDLEWATCH_NODE"]) for e in seen] == [
        ("0", "0", "n02"), ("1", "1", "n02"), ("2", "0", "n01"), ("3", "1", "n01"),
    ]  # fmt: skip
    assert len({(e["MASTER_ADDR"], e["MASTER_PORT"]) for e in seen}) == 1
    first = seen[0]
    assert first["WORLD_SIZE"] == "4"
    assert (first["MIDDLEWATCH_RUN"], first["MIDDLEWATCH_ATTEMPT"]) == ("demo", "1")
    assert first["MIDDLEWATCH_SOCKET"] == str(cluster.folder / "n02" / "agent.sock")
    assert first["MIDDLEWATCH_WORKER_SOCKET"].startswith(str(cluster.folder / "n02" / "worker"))
    assert first["MIDDLEWATCH_CHECKPOINT_DIR"] == str(cluster.folder / "ck")
    assert first["MIDDLEWATCH_RESUME_STEP"] == "0"


def test_a_run_that_declares_it_is_told_which_batches_to_leave_out(cluster):
    cluster.configure(SHOW, supports=("skip_batches",))
    start = {"run": "demo", "attempt": 1, "nodes": ["n01"]}
    cluster.command("attempt.start", **start, resume={"step": 0, "skip": [482, 682]})
    cluster.exited()
    shown = json.loads((cluster.folder / "n01" / "logs" / "demo.1.0.log").read_text())
    assert shown["MIDDLEWATCH_SKIP_BATCHES"] == "482:682"
    assert cluster.context.of("attempt.started")[0]["data"]["supports"] == ["skip_batches"]


@pytest.mark.parametrize(
    ("skip", "supports", "words"),
    [([1, 9], (), "does not declare skip_batches"), ([9, 1], ("skip_batches",), "the first step is after the last"),
     ([1], ("skip_batches",), "skip")],
)  # fmt: skip
def test_a_skip_that_cannot_be_done_is_refused_with_its_reason(cluster, skip, supports, words):
    cluster.configure(SHOW, supports=supports)
    start = {"run": "demo", "attempt": 1, "nodes": ["n01"]}
    outcome = cluster.command("attempt.start", **start, resume={"step": 0, "skip": skip})
    assert outcome.state == "refused"
    assert words in outcome.output_tail
    assert cluster.living() == []


def test_a_start_and_a_completed_end_are_each_reported_once(cluster):
    cluster.configure("")
    cluster.start()
    assert cluster.exited()["data"] == {"reason": "completed", "exit_code": 0}
    cluster.service.tell()
    assert [event["kind"] for event in cluster.context.events] == ["attempt.started", "attempt.exited"]
    started = cluster.context.of("attempt.started")[0]
    assert (started["run"], started["attempt"]) == ("demo", 1)
    assert started["data"]["nodes"] == ["n01", "n02"]
    assert started["data"]["resume"] == {"step": 0}


def test_asking_again_for_a_start_starts_nothing_more(cluster):
    first, pids = cluster.start(), [cluster.pid(0), cluster.pid(1)]
    again = cluster.start()
    cluster.open()
    after_restart = cluster.start()
    assert first.data == again.data == after_restart.data
    assert [cluster.pid(0), cluster.pid(1)] == pids
    assert len(cluster.living()) == 2


def test_the_end_of_one_rank_does_not_end_the_others(cluster):
    cluster.start()
    cluster.pid(0)
    kill(cluster.pid(1))
    wait_for(lambda: "signal" in cluster.status(1))
    cluster.service.tell()
    assert [process.rank for process in cluster.living()] == [0]
    assert cluster.context.of("attempt.exited") == []


def test_an_attempt_that_lost_all_its_ranks_failed_with_the_first_ones_end(cluster):
    cluster.configure("import os, time\nif os.environ['RANK'] == '0': raise SystemExit(7)\ntime.sleep(60)")
    cluster.start()
    wait_for(lambda: "exit_code" in cluster.status(0))
    kill(cluster.pid(1))
    assert cluster.exited()["data"] == {"reason": "failed", "exit_code": 7}


def test_a_killed_rank_gives_the_shells_exit_code_of_its_signal(cluster):
    cluster.start(nodes=("n01",))
    kill(cluster.pid(0))
    assert cluster.exited()["data"] == {"reason": "failed", "exit_code": 128 + signal.SIGKILL}


def test_ranks_killed_together_with_their_shims_are_noticed_too(cluster):
    cluster.start(nodes=("n01",))
    rank, shim_pid = cluster.pid(0), cluster.status(0)["shim_pid"]
    kill(shim_pid)
    wait_for(lambda: not processes.alive(rank, cluster.status(0)["start_ticks"]))
    assert cluster.exited()["data"] == {"reason": "failed", "exit_code": None}


class TestRefused:
    @pytest.mark.parametrize(
        ("args", "word"),
        [
            ({"run": "other"}, "run 'other'"),
            ({"nodes": ["n09"]}, "node 'n09'"),
            ({"nodes": ["n01", "n01"]}, "nodes"),
            ({"nodes": []}, "nodes"),
            ({"nodes": "n01"}, "nodes"),
            ({"nodes": [1]}, "nodes"),
            ({"attempt": -1}, "attempt"),
            ({"attempt": True}, "attempt"),
            ({"run": "../demo"}, "run"),
            ({"resume": {"step": "../../x"}}, "step"),
            ({"resume": {"step": -1}}, "step"),
            ({"resume": {"step": 40}}, "checkpoint of step 40"),
            ({"command": "rm"}, "command"),
        ],
    )
    def test_what_the_owner_did_not_configure(self, cluster, args, word):
        good = {"run": "demo", "attempt": 1, "nodes": ["n01"], "resume": {"step": 0}}
        outcome = cluster.command("attempt.start", **(good | args))
        assert outcome.state == "refused"
        assert word in outcome.output_tail
        assert cluster.living() == []

    def test_an_older_attempt_than_the_newest(self, cluster):
        cluster.configure("")
        cluster.start(5)
        cluster.exited()
        assert cluster.start(4).state == "refused"

    def test_a_second_attempt_while_one_lives(self, cluster):
        cluster.start(1)
        outcome = cluster.start(2)
        assert outcome.state == "refused"
        assert "attempt 1" in outcome.output_tail

    def test_a_second_attempt_while_a_helper_of_the_first_lives_on(self, cluster):
        cluster.configure(FAMILY)
        cluster.start(1, nodes=("n01",))
        wait_for(lambda: len(cluster.living()) == 2)
        kill(cluster.pid(0))
        wait_for(lambda: "signal" in cluster.status(0))
        if cluster.living():
            assert cluster.start(2).state == "refused"

    def test_the_same_attempt_on_other_nodes(self, cluster):
        cluster.start(1)
        assert cluster.start(1, nodes=("n03",)).state == "refused"

    def test_a_start_that_comes_after_its_stop(self, cluster):
        assert cluster.stop(3).data == {"stopped": True, "survivors": []}
        assert cluster.start(3).state == "refused"
        assert cluster.start(4).state == "succeeded"


def full_disk(_records, _record):
    raise OSError(errno.ENOSPC, "the disk is full")


class TestStop:
    def test_ends_every_rank_and_reports_a_kill(self, cluster):
        cluster.start()
        cluster.pid(0), cluster.pid(1)
        assert cluster.stop().data == {"stopped": True, "survivors": []}
        assert cluster.living() == []
        assert cluster.exited()["data"] == {"reason": "killed", "exit_code": 128 + signal.SIGTERM}

    def test_ends_every_rank_also_where_the_disk_is_full(self, cluster, monkeypatch):
        cluster.start()
        cluster.pid(0), cluster.pid(1)
        monkeypatch.setattr(Records, "save", full_disk)
        assert cluster.stop().data == {"stopped": True, "survivors": []}
        assert cluster.living() == []
        assert cluster.exited()["data"]["reason"] == "killed"

    def test_is_not_promised_where_the_promise_cannot_be_kept(self, cluster, monkeypatch):
        monkeypatch.setattr(Records, "save", full_disk)
        with pytest.raises(OSError, match="full"):
            cluster.stop(3)

    def test_forces_a_rank_that_does_not_listen(self, cluster):
        cluster.configure(DEAF)
        cluster.start(nodes=("n01",))
        log = cluster.folder / "n01/logs/demo.1.0.log"
        wait_for(lambda: log.exists() and "deaf" in log.read_text())
        assert cluster.stop().state == "succeeded"
        assert cluster.exited()["data"]["exit_code"] == 128 + signal.SIGKILL

    def test_does_not_give_a_stopped_rank_time_to_listen(self, cluster):
        cluster.start(nodes=("n01",))
        os.kill(cluster.pid(0), signal.SIGSTOP)
        wait_for(lambda: cluster.living()[0].state == "T")
        done = threading.Event()
        threading.Thread(target=lambda: (cluster.stop(grace_s=600), done.set())).start()
        assert done.wait(10)
        assert cluster.exited()["data"]["reason"] == "killed"

    def test_right_behind_the_start_still_finds_every_rank(self, cluster):
        cluster.start()
        assert cluster.stop().state == "succeeded"
        assert cluster.exited()["data"]["reason"] == "killed"
        assert [cluster.status(rank)["signal"] for rank in (0, 1)] == [signal.SIGTERM] * 2

    def test_reaches_helpers_that_left_the_ranks_session(self, cluster):
        cluster.configure(FAMILY)
        cluster.start(nodes=("n01",))
        wait_for(lambda: len(cluster.living()) == 2)
        assert cluster.stop().state == "succeeded"
        assert cluster.living() == []

    def test_leaves_the_ranks_of_another_installation_alone(self, cluster):
        cluster.start(nodes=("n01",))
        cluster.pid(0)
        assert len(cluster.living()) == 1
        assert processes.of_run("demo", frozenset({"/elsewhere/agent.sock"})) == []

    def test_twice_is_as_good_as_once(self, cluster):
        cluster.start()
        cluster.stop()
        assert cluster.stop().data == {"stopped": True, "survivors": []}
        cluster.exited()
        assert len(cluster.context.of("attempt.exited")) == 1

    def test_of_an_attempt_that_failed_by_itself_does_not_call_it_killed(self, cluster):
        cluster.start(nodes=("n01",))
        kill(cluster.pid(0))
        wait_for(lambda: "signal" in cluster.status(0))
        cluster.stop()
        assert cluster.exited()["data"]["reason"] == "failed"

    def test_of_an_attempt_that_never_came_forgets_nothing_of_the_one_that_lives(self, cluster):
        cluster.start(1, nodes=("n01",))
        assert cluster.stop(2).state == "succeeded"
        kill(cluster.pid(0))
        assert cluster.exited()["attempt"] == 1

    @pytest.mark.parametrize("grace", [-1, "1", True, 1e9])
    def test_refuses_a_grace_that_is_none(self, cluster, grace):
        assert cluster.stop(grace_s=grace).state == "refused"


class TestRestartedLauncher:
    def test_takes_up_its_attempts_and_reports_their_end(self, cluster):
        cluster.start()
        cluster.pid(0), cluster.pid(1)
        cluster.open()
        cluster.stop()
        assert cluster.exited()["data"]["reason"] == "killed"
        assert len(cluster.context.of("attempt.started")) == 1

    def test_reports_an_end_that_happened_while_it_was_away(self, cluster):
        cluster.start(nodes=("n01",))
        kill(cluster.pid(0))
        wait_for(lambda: "signal" in cluster.status(0))
        cluster.open()
        assert cluster.exited()["data"]["reason"] == "failed"

    def test_finishes_a_start_that_was_cut_short(self, cluster, monkeypatch):
        spawn = cluster.launcher._spawner.spawn

        def die_at_the_second(record, rank):
            if rank.rank == 1:
                raise KeyboardInterrupt
            spawn(record, rank)

        monkeypatch.setattr(cluster.launcher._spawner, "spawn", die_at_the_second)
        with pytest.raises(KeyboardInterrupt):
            cluster.start()
        first = cluster.pid(0)
        cluster.open()
        began = cluster.launcher._newest()[0].started_at_ms
        cluster.launcher.take_up(now_ms=began + 1000)
        assert cluster.pid(0) == first
        assert cluster.pid(1)

    def test_gives_up_a_cut_start_that_is_old(self, cluster, monkeypatch):
        monkeypatch.setattr(cluster.launcher._spawner, "spawn", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            cluster.start()
        cluster.open()
        cluster.launcher.take_up(now_ms=cluster.launcher._newest()[0].started_at_ms + 60_000)
        cluster.service.tell()
        assert cluster.exited()["data"]["reason"] == "failed"
        assert cluster.living() == []


def test_a_start_without_its_working_folder_fails_with_the_reason(cluster):
    cluster.toml.write_text(cluster.toml.read_text().replace("[runs.demo]", '[runs.demo]\nfolder = "gone"'))
    cluster.open()
    outcome = cluster.start()
    assert outcome.state == "failed"
    assert "gone" in outcome.output_tail
    assert cluster.start().state == "failed"
    assert cluster.exited()["data"]["reason"] == "failed"


def test_a_worker_socket_of_a_deep_folder_still_fits_the_kernel():
    deep = "/" + "d" * 90
    assert len(plan.worker_socket(deep, "a-long-run-name.17.1023")) <= plan.MAX_SOCKET_PATH
