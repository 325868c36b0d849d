"""Successors behind a run's job: kept, held, and turned into the next attempt."""

import re

import pytest

from controlplane.demo.slurm_lab import SlurmLab
from tests.agent.launcher.stage import Cluster, kill, wait_for

WAITS_FOR_A_WORD = """
import os, pathlib, time
while not (pathlib.Path(os.environ["MIDDLEWATCH_SOCKET"]).parent / "end").exists():
    time.sleep(0.05)
"""


def queue(lab: SlurmLab) -> list[list[str]]:
    """What waits: number, dependency, excluded nodes, reason."""
    lines = lab.tool("squeue", "-h", "-t", "PD", "-n", "demo.next", "-S", "i", "-o", "%i|%E|%y|%r").splitlines()
    jobs = [line.split("|") for line in lines]
    return [[*job, _field(lab, job[0], "ExcNodeList")] for job in jobs]


def _field(lab: SlurmLab, job_id: str, name: str) -> str:
    return lab.tool("scontrol", "-o", "show", "job", job_id).partition(f" {name}=")[2].split()[0]


def needed(row: list[str]) -> list[str]:
    """The jobs that a waiting one waits for."""
    return re.findall(r"afterany:(\d+)", row[1])


def tell(site: Cluster) -> None:
    site.launcher._site.world.hurry()
    site.service.tell()


@pytest.fixture
def running(site: Cluster) -> Cluster:
    site.configure(WAITS_FOR_A_WORD)
    site.start(nodes=("n1",))
    site.pid(0)
    return site


def test_two_successors_form_a_chain_that_follows_changes_and_keeps_its_numbers(running, lab):
    first, second = running.launcher.keep("demo", 2, [])["successors"]
    job = running.launcher._site.records.newest("demo").job
    assert [needed(row) for row in queue(lab)] == [[job], [job, first]]
    assert running.launcher.keep("demo", 2, ["n4"])["successors"] == [first, second]
    assert [row[-1] for row in queue(lab)] == ["n4", "n4"]
    lab.tool("scontrol", "uhold", second)
    assert running.launcher.hold("demo") == {"held": [first]}
    assert [row[3] for row in queue(lab)] == ["JobHeldUser", "JobHeldUser"]
    running.open()
    assert running.launcher.release("demo") == {"released": [first]}
    assert [row[0] for row in queue(lab) if row[3] == "JobHeldUser"] == [second]
    lab.tool("scontrol", "release", second)
    tell(running)
    told = {event["data"]["job_id"]: event["data"] for event in running.context.of("scheduler.job")}
    assert (told[job]["successors"], told[first]["state"]) == (2, "PENDING")
    lab.tool("scancel", first)
    wait_for(lambda: tell(running) or len(queue(lab)) == 2)
    assert {process.attempt for process in running.living()} == {1}
    assert running.launcher.keep("demo", 0, [])["successors"] == []


def test_nothing_is_queued_behind_a_run_that_has_no_job(site):
    outcome = site.command("attempt.stop", run="demo", attempt=1)
    assert outcome.state == "succeeded"
    with pytest.raises(Exception, match="has no job that another could follow"):
        site.launcher.keep("demo", 1, [])


def test_after_a_time_limit_the_successor_becomes_the_next_attempt_which_any_launcher_can_stop(
    running, lab, monkeypatch
):
    successor = running.launcher.keep("demo", 1, [])["successors"][0]
    running.told("attempt.started")
    lab.tool("scancel", "--batch", "--signal=USR1", running.launcher._site.records.newest("demo").job)
    (running.folder / "n1" / "end").touch()
    assert running.exited()["data"]["reason"] == "timeout"
    (running.folder / "n1" / "end").unlink()

    def began() -> object:
        tell(running)
        return running.launcher._site.records.newest("demo").attempt == 2

    wait_for(began)
    assert running.pid(0, attempt=2)
    started = wait_for(lambda: tell(running) or running.context.of("attempt.started")[1:])[0]
    assert (started["attempt"], started["data"]["job_id"], started["data"]["resume"]) == (2, successor, {"step": 0})
    wait_for(lambda: tell(running) or len(queue(lab)) == 1)
    asked = running.start(2, ("n2", "n3"))
    assert (asked.state, asked.data["nodes"], asked.data["job_id"]) == (
        "succeeded",
        started["data"]["nodes"],
        successor,
    )
    (running.folder / "head" / "launcher").rename(running.folder / "lost")
    running.open()
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr("middlewatch_agent.launcher.processes.of_run", lambda *_: [])
        assert running.stop(2).data == {"stopped": True, "survivors": []}
    assert successor not in lab.tool("squeue", "-h", "-t", "R", "-o", "%i").split()


def test_after_a_crash_the_control_planes_attempt_goes_first_and_the_chain_follows_it(running, lab):
    successor = running.launcher.keep("demo", 1, ["n4"])["successors"][0]
    kill(running.pid(0))
    assert running.exited()["data"]["reason"] == "failed"
    assert running.start(2, ("n2",)).state == "succeeded"
    new = running.launcher._site.records.newest("demo")
    tell(running)
    chain = wait_for(lambda: tell(running) or queue(lab))
    assert needed(chain[0]) == [new.job]
    assert new.exclude == ["n4"]
    assert running.pid(0, attempt=2)
    assert len(running.living()) == 1
    assert successor != new.job


def test_after_a_crash_nobody_answers_the_successor_goes_on_by_itself(running):
    running.launcher.keep("demo", 1, [])
    kill(running.pid(0))
    assert running.exited()["data"]["reason"] == "failed"
    wait_for(lambda: tell(running) or running.launcher._site.records.newest("demo").attempt == 2)
    assert running.pid(0, attempt=2)


def test_a_finished_run_leaves_nothing_in_the_queue(running, lab):
    running.launcher.keep("demo", 2, [])
    (running.folder / "n1" / "end").touch()
    assert running.exited()["data"]["reason"] == "completed"
    wait_for(lambda: tell(running) or lab.tool("squeue", "-h") == "")
    assert running.launcher._site.records.newest("demo").attempt == 1


def test_a_run_that_was_stopped_keeps_its_successors_held(running, lab):
    running.launcher.keep("demo", 1, [])
    running.stop()
    running.exited()
    tell(running)
    assert [row[3] for row in queue(lab)] == ["JobHeldUser"]
    assert running.living() == []
