"""What every scheduler adapter promises, as tests that each of them passes (docs/launcher.md).

An adapter's own test file inherits from `Contract` and gives a fixture `stage`: a
`stage.Cluster` over at least three free nodes, with nothing running.
"""

import json
import signal

import pytest

from tests.agent.launcher.stage import kill, wait_for

DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(60)"
SHOW = "import json, os; print(json.dumps(dict(os.environ)), flush=True)"
FAILING = "raise SystemExit(7)"


class Contract:
    def test_ranks_find_their_places_in_the_order_of_the_nodes_and_both_ends_are_told_once(self, stage):
        stage.configure(SHOW)
        third, first = stage.nodes[2], stage.nodes[0]
        outcome = stage.start(nodes=(third, first))
        assert outcome.data["world_size"] == 2
        assert stage.exited()["data"] == {"reason": "completed", "exit_code": 0}
        stage.service.tell()
        told = [event["kind"] for event in stage.context.events if event["kind"].startswith("attempt.")]
        assert told == ["attempt.started", "attempt.exited"]
        started = stage.context.of("attempt.started")[0]["data"]
        assert (started["scheduler"], started["job_id"]) == (stage.launcher.scheduler, outcome.data["job_id"])
        assert (started["nodes"], started["resume"]) == ([third, first], {"step": 0})
        seen = [json.loads((stage.folder / node / "logs" / f"demo.1.{rank}.log").read_text())
                for rank, node in enumerate((third, first))]  # fmt: skip
        assert [(e["RANK"], e["LOCAL_RANK"], e["MIDDLEWATCH_NODE"]) for e in seen] == [
            ("0", "0", third),
            ("1", "0", first),
        ]
        assert len({(e["MASTER_ADDR"], e["MASTER_PORT"]) for e in seen}) == 1
        assert seen[0]["MIDDLEWATCH_SOCKET"] == str(stage.folder / third / "agent.sock")
        assert "MIDDLEWATCH_ORDER" not in seen[0]

    def test_asking_again_for_a_start_starts_nothing_more_also_after_a_restart(self, stage):
        first, pids = stage.start(), [stage.pid(0), stage.pid(1)]
        again = stage.start()
        stage.open()
        assert first.data == again.data == stage.start().data
        assert [stage.pid(0), stage.pid(1)] == pids
        assert len(stage.living()) == 2

    def test_the_end_of_one_rank_does_not_end_the_others_and_a_stop_ends_them(self, stage):
        stage.start()
        stage.pid(0)
        kill(stage.pid(1))
        wait_for(lambda: "signal" in stage.status(1))
        stage.service.tell()
        assert [process.rank for process in stage.living()] == [0]
        assert stage.context.of("attempt.exited") == []
        assert stage.stop().data["survivors"] == []
        assert stage.living() == []
        assert stage.exited()["data"]["reason"] == "killed"
        assert stage.stop().state == "succeeded"

    @pytest.mark.parametrize("program", [FAILING, "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"])
    def test_an_attempt_that_ends_by_itself_failed_with_a_shells_exit_code(self, stage, program):
        stage.configure(program)
        stage.start(nodes=stage.nodes[:1])
        wanted = 7 if program == FAILING else 128 + signal.SIGKILL
        assert stage.exited()["data"] == {"reason": "failed", "exit_code": wanted}
        assert stage.stop().state == "succeeded"
        assert stage.exited()["data"]["reason"] == "failed"

    def test_a_rank_that_does_not_listen_is_forced(self, stage):
        stage.configure(DEAF)
        stage.start(nodes=stage.nodes[:1])
        log = stage.folder / stage.nodes[0] / "logs/demo.1.0.log"
        wait_for(lambda: log.exists() and "deaf" in log.read_text())
        assert stage.stop().state == "succeeded"
        assert stage.living() == []
        assert stage.exited()["data"]["reason"] == "killed"

    def test_a_stop_right_behind_the_start_leaves_no_rank(self, stage):
        stage.start()
        assert stage.stop().state == "succeeded"
        assert stage.living() == []
        assert stage.exited()["data"]["reason"] == "killed"

    def test_a_start_that_comes_after_its_stop_is_refused(self, stage):
        assert stage.stop(3).data["survivors"] == []
        assert stage.start(3).state == "refused"
        assert stage.start(4).state == "succeeded"

    @pytest.mark.parametrize(
        ("args", "word"),
        [({"run": "other"}, "run 'other'"), ({"nodes": ["n09"]}, "n09"), ({"nodes": []}, "nodes"),
         ({"resume": {"step": 40}}, "checkpoint of step 40"), ({"command": "rm"}, "command")],
    )  # fmt: skip
    def test_what_the_owner_did_not_configure_is_refused(self, stage, args, word):
        good = {"run": "demo", "attempt": 1, "nodes": [stage.nodes[0]], "resume": {"step": 0}}
        outcome = stage.command("attempt.start", **(good | args))
        assert outcome.state == "refused"
        assert word in outcome.output_tail
        assert stage.living() == []

    def test_a_second_attempt_while_one_lives_and_an_older_one_ever_are_refused(self, stage):
        stage.start(5)
        outcome = stage.start(6)
        assert outcome.state == "refused"
        assert "attempt 5" in outcome.output_tail
        stage.stop(5)
        assert stage.start(4).state == "refused"

    def test_a_restarted_launcher_tells_an_end_that_it_has_not_seen(self, stage):
        stage.start(nodes=stage.nodes[:1])
        kill(stage.pid(0))
        wait_for(lambda: "signal" in stage.status(0))
        stage.open()
        assert stage.exited()["data"]["reason"] == "failed"
        assert len(stage.context.of("attempt.started")) == 1
