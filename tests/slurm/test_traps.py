"""What Slurm does that would fool a naive launcher, each on a real one."""

import os
import time

import pytest
from middlewatch_agent.launcher.base import Queue

from controlplane.demo.slurm_lab import SlurmLab
from tests.agent.launcher.stage import SLEEP, Cluster, kill, wait_for
from tests.slurm.conftest import HEAD

PICTURE = ["squeue", "scontrol"]
"""One look at jobs and nodes."""
SAVES = """
import os, pathlib, time
node = pathlib.Path(os.environ["MIDDLEWATCH_SOCKET"]).parent
switch = node / "switches" / f"demo.{os.environ['MIDDLEWATCH_ATTEMPT']}.kill"
while not switch.exists():
    time.sleep(0.05)
(node / "saved").write_text("yes")
"""


def job(site: Cluster, attempt: int = 1) -> str:
    return site.launcher._site.records.newest("demo").job_id


def state(lab: SlurmLab, job_id: str) -> str:
    return lab.tool("squeue", "-h", "-t", "all", "-j", job_id, "-o", "%T", check=False).strip()


def node(lab: SlurmLab, name: str) -> str:
    return lab.tool("scontrol", "-o", "show", "node", name)


@pytest.fixture
def asked(site, monkeypatch):
    """The tools of Slurm that the launcher calls, in their order: each is a process while everybody waits."""
    tools, names = site.launcher._site.tools, []
    run = tools._run
    monkeypatch.setattr(tools, "_run", lambda name, *arguments: names.append(name) or run(name, *arguments))
    return names


class TestCancelled:
    def test_by_a_person_is_told_so_that_nobody_restarts_it(self, site, lab):
        site.start()
        site.pid(0), site.pid(1)
        lab.tool("scancel", job(site))
        data = site.exited()["data"]
        assert (data["reason"], data["by"]) == ("killed", "somebody outside Middlewatch")
        assert "was cancelled by somebody" in data["why"]
        told = [event["data"] for event in site.context.of("scheduler.job")]
        assert (told[-1]["state"], told[-1]["by"]) == ("CANCELLED", "somebody outside Middlewatch")

    def test_by_us_is_told_as_ours_and_slurm_is_asked_for_nothing_twice(self, site, asked):
        site.start()
        site.pid(0), site.pid(1)
        del asked[:]
        site.stop(grace_s=0.0)
        assert asked[:3] == ["squeue", "scancel", "scancel"]
        assert asked[-3:] == ["squeue", *PICTURE]
        assert site.living() == []
        assert "sacct" not in asked
        assert site.exited()["data"]["by"] == "middlewatch"
        told = [event["data"] for event in site.context.of("scheduler.job")]
        assert (told[-1]["state"], told[-1]["by"]) == ("CANCELLED", "middlewatch")

    def test_by_slurm_because_a_node_could_not_begin_it_is_no_persons_doing(self, tmp_path):
        with SlurmLab(tmp_path, nodes=("n1", "n2"), settings={"Prolog": "/bin/false"}) as lab:
            site = Cluster(tmp_path, ("n1", "n2"), HEAD.format(conf=lab.config))
            site.start(nodes=("n1",))
            data = site.exited()["data"]
            assert (data["reason"], data["why"]) == ("failed", "a node could not begin it, and Slurm cancelled it")
            assert (data["exit_code"], "by" in data) == (None, False)
            assert site.context.of("scheduler.job")[-1]["data"]["state"] == "FAILED"
            assert "Prolog error" in node(lab, "n1")


class TestControllerDown:
    def test_nothing_is_told_as_ended_and_nothing_is_begun_on_what_nobody_knows(self, site, lab):
        site.start(nodes=("n1",))
        pid = site.pid(0)
        site.told("attempt.started")
        lab.stop("slurmctld")
        patient, site.head = site.head, site.head.replace("tool_s = 6", "tool_s = 1")
        site.configure(SLEEP)
        site.service.tell()
        assert site.context.of("attempt.exited") == []
        for outcome in (site.stop(), site.start(2, ("n2",))):
            assert outcome.state == "failed"
            assert "Unable to contact" in outcome.output_tail or "no answer" in outcome.output_tail
        assert [process.pid for process in site.living()] == [pid]
        lab.start("slurmctld")
        site.head = patient
        site.configure(SLEEP)
        assert site.stop().state == "succeeded"
        assert site.exited()["data"]["reason"] == "killed"


class TestLostNode:
    def test_a_frozen_host_is_fenced_and_the_run_goes_on_elsewhere_before_slurm_gives_it_up(self, site, lab):
        log = lab.folder / "slurmctld.log"
        before = log.stat().st_size
        site.start()
        site.pid(0), site.pid(1)
        lab.freeze("n1")
        outcome = site.stop()
        assert outcome.data == {"stopped": True, "survivors": [], "fenced": ["n1"]}
        assert site.exited()["data"]["reason"] == "killed"
        assert site.start(2, ("n2", "n3")).state == "succeeded"
        wait_for(lambda: len(site.living()) == 2)
        assert b"not responding, setting DOWN" not in log.read_bytes()[before:]
        assert "Reason=middlewatch: fenced: attempt 1 of run demo could not be ended here" in node(lab, "n1")
        assert "nodes: n1 is down, middlewatch: fenced" in site.start(3, ("n1",)).output_tail

    def test_a_job_that_completes_on_a_dead_node_has_not_ended_yet(self, site, lab):
        site.start()
        site.pid(0), site.pid(1)
        lab.freeze("n2")
        lab.tool("scancel", job(site))
        wait_for(lambda: state(lab, job(site)) == "COMPLETING")
        wait_for(
            lambda: (
                site.service.tell() or any(e["data"]["state"] == "COMPLETING" for e in site.context.of("scheduler.job"))
            )
        )
        assert site.context.of("attempt.exited") == []
        assert "COMPLETING" in site.start(2, ("n3", "n4")).output_tail
        assert site.stop().data["fenced"] == ["n2"]
        assert site.exited()["data"]["reason"] == "killed"

    def test_a_daemon_that_died_alone_leaves_a_ghost_that_is_ended_before_any_restart(self, site, lab):
        site.start()
        site.pid(0), site.pid(1)
        lab.kill("n1")
        lab.tool("scontrol", "update", "nodename=n1", "state=down", "reason=Not responding")
        assert site.exited()["data"]["reason"] == "node_fail"
        assert [process.node for process in wait_for(lambda: [p for p in site.living() if p.node == "n1"])] == ["n1"]
        refused = site.start(2, ("n2", "n3"))
        assert refused.state == "refused"
        assert "still has 1 living processes" in refused.output_tail
        assert site.stop().data == {"stopped": True, "survivors": [], "fenced": ["n1"]}
        assert site.living() == []
        assert site.start(2, ("n2", "n3")).state == "succeeded"

    def test_a_fenced_node_stays_out_where_slurm_takes_back_whoever_registers(self, tmp_path):
        with SlurmLab(tmp_path, nodes=("n1", "n2"), settings={"ReturnToService": "2"}) as lab:
            site = Cluster(tmp_path, ("n1", "n2"), HEAD.format(conf=lab.config))
            site.start(nodes=("n1",))
            site.pid(0)
            lab.freeze("n1")
            assert site.stop().data["fenced"] == ["n1"]
            lab.thaw("n1")
            lab.kill("n1")
            lab.start("n1")
            wait_for(lambda: "NOT_RESPONDING" not in node(lab, "n1"))
            assert "DRAIN" in node(lab, "n1")
            assert site.launcher.resume(["n1"]) == {"resumed": ["n1"], "left": {}}
            wait_for(lambda: lab.states()["n1"] == "idle")
            site.close()


class TestDrained:
    def test_by_hand_a_node_is_left_alone_and_no_job_waits_for_it(self, site, lab):
        lab.tool("scontrol", "update", "nodename=n1", "state=drain", "reason=bad fan")
        assert isinstance(site.launcher, Queue)
        for call in (lambda: site.launcher.drain(["n1"], "strikes"), lambda: site.launcher.resume(["n1"])):
            assert call()["left"] == {"n1": "drained by root: bad fan"}
        assert "Reason=bad fan" in node(lab, "n1")
        refused = site.start(nodes=("n1",))
        assert (refused.state, refused.output_tail) == ("refused", "nodes: n1 is drained by root: bad fan")

    def test_by_us_it_is_marked_told_and_given_back(self, site, lab):
        assert site.launcher.drain(["n2", "n9"], "3 strikes") == {
            "drained": ["n2"], "left": {"n9": "Slurm does not know it"},
        }  # fmt: skip
        assert site.launcher.drain(["n2"], "again")["drained"] == ["n2"]
        assert "Reason=middlewatch: 3 strikes" in node(lab, "n2")
        site.launcher._site.world.hurry()
        site.service.tell()
        told = [e["data"] for e in site.context.of("scheduler.node") if e["data"]["node"] == "n2"]
        assert told[-1] == {
            "node": "n2",
            "state": "drained",
            "reason": "middlewatch: 3 strikes",
            "owner": "middlewatch",
        }
        assert site.launcher.resume(["n2"])["resumed"] == ["n2"]
        wait_for(lambda: lab.states()["n2"] == "idle")


class TestSubmission:
    def test_a_killed_launcher_takes_up_the_job_that_it_had_submitted(self, site, lab, monkeypatch):
        records = site.launcher._site.records
        save = records.save

        def die_after_the_submission(record):
            if record.job:
                raise KeyboardInterrupt
            save(record)

        monkeypatch.setattr(records, "save", die_after_the_submission)
        with pytest.raises(KeyboardInterrupt):
            site.start(nodes=("n1",))
        site.open()
        site.launcher.take_up(now_ms=site.launcher._site.records.newest("demo").started_at_ms + 1000)
        assert site.pid(0)
        assert len(lab.tool("squeue", "-h").splitlines()) == 1

    def test_a_job_whose_answer_was_lost_fails_and_is_cancelled_when_it_appears(self, site, lab, tmp_path):
        slow = tmp_path / "bin"
        slow.mkdir()
        for name in ("squeue", "scontrol", "scancel"):
            (slow / name).symlink_to(f"/usr/bin/{name}")
        (slow / "sbatch").write_text('#!/bin/sh\n/usr/bin/sbatch "$@" >/dev/null; exec sleep 9\n')
        (slow / "sbatch").chmod(0o755)
        site.head = site.head.replace("tool_s = 6", f'tool_s = 1\nbin_dir = "{slow}"')
        site.configure(SLEEP)
        outcome = site.start(nodes=("n1",))
        assert outcome.state == "failed"
        assert "if the job appears, it is cancelled" in outcome.output_tail
        data = site.exited()["data"]
        assert data["reason"] == "failed"
        assert "Slurm gave no answer (sbatch gave no answer within 1 s)" in data["why"]
        wait_for(lambda: site.living() == [])
        assert lab.tool("squeue", "-h").splitlines() == []

    def test_a_restart_is_a_new_job_that_one_look_precedes_and_no_hold_off_delays(self, site, lab, asked):
        site.start(nodes=("n1",))
        kill(site.pid(0))
        site.exited()
        assert "Requeue=0" in lab.tool("scontrol", "-o", "show", "job", job(site))
        del asked[:]
        assert site.start(2, ("n1",)).state == "succeeded"
        assert asked[: asked.index("sbatch")] == PICTURE
        assert site.pid(0, attempt=2)
        told = lab.tool("scontrol", "-o", "show", "job", job(site))
        times = dict(part.split("=", 1) for part in told.split() if "Time=" in part)
        assert times["EligibleTime"] == times["SubmitTime"]


class TestEndInSight:
    def configure(self, site, *lines: str) -> None:
        site.head = site.head.replace("poll_s", "\n".join(lines) + "\npoll_s")
        site.configure(SAVES)

    def test_before_its_time_limit_every_rank_is_asked_to_save_and_end(self, site, lab):
        self.configure(site, "save_s = 60", 'options = { time = "1" }')
        site.start()
        site.told("attempt.started")
        lab.tool("scancel", "--batch", "--signal=USR1", job(site))  # as Slurm does, which looks at limits each 30 s
        assert site.exited()["data"]["reason"] == "timeout"
        assert site.exited()["data"]["why"] == "its time limit; its ranks had saved and ended"
        assert [(site.folder / name / "saved").read_text() for name in ("n1", "n2")] == ["yes", "yes"]
        notice = site.context.of("capacity.notice")[0]["data"]
        assert notice["what"] == "allocation_end"
        assert 0 < notice["ends_at_ms"] / 1000 - time.time() < 70

    def test_at_its_time_limit_slurm_itself_ends_it_and_it_has_not_failed(self, overtime):
        data = wait_for(lambda: overtime.service.tell() or overtime.context.of("attempt.exited"), 90)[0]["data"]
        assert (data["reason"], data["why"]) == ("timeout", "its time limit")
        told = [event["data"]["state"] for event in overtime.context.of("scheduler.job")]
        assert told[-1] == "TIMEOUT"
        assert set(told) <= {"PENDING", "RUNNING", "COMPLETING", "TIMEOUT"}
        assert overtime.living() == []
        assert overtime.status(0)["signal"] == 15

    def test_a_planned_maintenance_is_announced(self, site, lab):
        lab.tool("scontrol", "create", "reservation", "ReservationName=fans", "StartTime=now+600", "Duration=30",
                 "Nodes=n[3-4]", "Users=root", "Flags=MAINT")  # fmt: skip
        notice = site.told("capacity.notice")["data"]
        lab.tool("scontrol", "delete", "ReservationName=fans")
        assert (notice["what"], notice["nodes"]) == ("maintenance", ["n3", "n4"])
        assert 500 < notice["begins_at_ms"] / 1000 - time.time() < 700
        assert notice["ends_at_ms"] - notice["begins_at_ms"] == 30 * 60_000

    def test_a_preempted_job_saves_too(self, site, lab):
        self.configure(site, "save_s = 60", 'partition = "main"')
        site.start()
        site.pid(0), site.pid(1)
        lab.tool("sbatch", "-p", "urgent", "--exclusive", "-w", "n1,n2", "-o", os.devnull, "--wrap", "sleep 1")
        assert site.exited()["data"]["reason"] == "preempted"
        assert [(site.folder / name / "saved").read_text() for name in ("n1", "n2")] == ["yes", "yes"]
