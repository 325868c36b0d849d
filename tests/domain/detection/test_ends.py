"""Ends that somebody meant: a cancellation, a time limit, a preemption. Nobody is blamed, and no run is forgotten."""

import pytest

from controlplane.domain.findings import Stage as Of
from tests.domain.stage import Stage


def training(scheduler="slurm", **policy):
    stage = Stage()
    stage.launch()
    stage.send(
        "attempt.started", scheduler=scheduler, job_id="7001", nodes=stage.names, world_size=stage.world,
        resume={"step": 0},
    )  # fmt: skip
    return stage


def end_ranks(stage, signal=15):
    for rank in range(stage.world):
        stage.rank("rank.exited", rank, exit_code=None, signal=signal)
    stage.sweep()


def job(stage, state, job_id="7001", **data):
    stage.send("scheduler.job", job_id=job_id, state=state, **data)
    stage.sweep()


def later(stage, seconds):
    stage.now += seconds
    stage.beat()
    return stage.sweep()


def stages(stage, klass):
    return [item.stage for item in stage.log if item.klass == klass]


def test_ranks_that_were_asked_to_end_are_a_suspicion_until_the_scheduler_has_spoken():
    stage = training()
    end_ranks(stage)
    assert stages(stage, "crash") == [Of.SUSPECT]
    later(stage, 14)
    assert stages(stage, "crash")[-1] is Of.SUSPECT
    assert stage.machine.due(stage.now) == stage.now + 1
    later(stage, 1)
    assert stages(stage, "crash")[-1] is Of.CONFIRMED


def test_a_cancelled_job_takes_the_suspicion_back():
    stage = training()
    end_ranks(stage)
    job(stage, "CANCELLED", by="ana")
    stage.send("attempt.exited", reason="killed")
    stage.sweep()
    assert stages(stage, "crash") == [Of.SUSPECT, Of.CLEARED]
    later(stage, 600)
    assert stages(stage, "crash")[-1] is Of.CLEARED


def test_a_rank_that_was_killed_outright_is_told_at_once():
    stage = training()
    stage.rank("rank.exited", 1, exit_code=None, signal=9)
    stage.sweep()
    assert stages(stage, "crash") == [Of.CONFIRMED]


def test_a_rank_that_ignored_the_request_and_was_killed_for_it_is_no_cause():
    stage = training()
    stage.rank("rank.exited", 0, exit_code=None, signal=15)
    stage.now += 3
    stage.rank("rank.exited", 1, exit_code=None, signal=9)
    stage.sweep()
    assert stages(stage, "crash") == [Of.SUSPECT]


def test_our_own_launcher_knows_what_it_did():
    stage = training(scheduler="local")
    end_ranks(stage)
    assert stages(stage, "crash") == [Of.CONFIRMED]


def test_a_crash_stays_a_crash_when_somebody_cancels_the_rest_of_the_job():
    stage = training()
    end_ranks(stage, signal=11)
    job(stage, "CANCELLED", by="ana")
    later(stage, 5)
    assert stages(stage, "crash") == [Of.CONFIRMED]


@pytest.mark.parametrize(("word", "reason", "said"), [
    ("TIMEOUT", "timeout", "reached its time limit"), ("PREEMPTED", "preempted", "was preempted"),
])  # fmt: skip
def test_an_end_by_the_scheduler_without_a_successor_is_told_and_is_no_crash(word, reason, said):
    stage = training()
    job(stage, "RUNNING")
    end_ranks(stage)
    job(stage, word)
    stage.send("attempt.exited", reason=reason)
    later(stage, 2)
    assert stages(stage, "crash") == [Of.SUSPECT, Of.CLEARED]
    (found,) = [item for item in stage.log if item.klass == "capacity"]
    assert (found.stage, found.severity, found.facts["kind"]) == (Of.CONFIRMED, "critical", "ended")
    assert f"attempt 1 of run demo {said} and no job follows it" in found.sentence
    stage.launch()
    stage.sweep()
    assert stages(stage, "capacity")[-1] is Of.CLEARED


def test_an_end_with_a_successor_in_the_queue_needs_nobody():
    stage = training()
    job(stage, "RUNNING", successors=1)
    stage.send("scheduler.job", job_id="7002", state="PENDING", attempt=None)
    job(stage, "TIMEOUT")
    for _ in range(10):
        later(stage, 60)
        stage.send("scheduler.job", job_id="7002", state="PENDING", attempt=None)
    assert "ended" not in [item.facts.get("kind") for item in stage.log]
    later(stage, 181)
    assert stage.log[-1].facts["kind"] == "ended"


def test_a_successor_that_was_only_counted_is_waited_for():
    stage = training()
    job(stage, "RUNNING", successors=2)
    stage.send("attempt.exited", reason="timeout")
    later(stage, 599)
    assert "ended" not in [item.facts.get("kind") for item in stage.log]
    later(stage, 2)
    assert [item.facts.get("kind") for item in stage.log if item.klass == "capacity"] == ["ended"]


def test_an_end_for_maintenance_that_was_announced_is_waited_out():
    stage = training()
    begins = round(stage.now * 1000)
    stage.send("capacity.notice", run=None, what="maintenance", nodes=stage.names,
               begins_at_ms=begins, ends_at_ms=begins + 3_600_000)  # fmt: skip
    stage.send("attempt.exited", reason="preempted")
    later(stage, 1_800)
    assert stages(stage, "capacity") == []


def test_an_attempt_that_we_stopped_ourselves_is_not_launched_again_for_its_end():
    stage = training()
    stage.machine.rest(stage.now)
    stage.send("attempt.exited", reason="timeout")
    later(stage, 900)
    assert stages(stage, "capacity") == []


def test_the_end_of_another_job_of_the_run_is_not_the_end_of_the_attempt():
    stage = training()
    job(stage, "CANCELLED", job_id="7002", by="ana")
    job(stage, "FAILED", job_id="6999")
    assert stage.machine.view().state == "live"


def test_a_queue_that_a_person_thinned_out_is_not_filled_up_again():
    stage = training()
    job(stage, "RUNNING", successors=2)
    later(stage, 10)
    job(stage, "CANCELLED", job_id="7002", by="ana")
    job(stage, "RUNNING", successors=1)
    assert "successors" not in [item.facts.get("kind") for item in stage.log]
