"""Waiting under one's own reservation is an alarm; a thin queue and the end of an allocation are told hours ahead."""

import pytest

from controlplane.domain.detection.policy import RunPolicy
from controlplane.domain.findings import Stage as Of
from tests.domain.stage import Stage


class Queue(Stage):
    def job(self, state, *, job_id="7001", **data):
        self.send("scheduler.job", job_id=job_id, state=state, **data)
        return self.said()

    def said(self):
        self.sweep()
        return [item for item in self.log if item.detector == "D-17"]

    def later(self, seconds):
        self.now += seconds
        return self.said()


def test_a_job_that_waits_under_its_own_reservation_is_an_alarm_after_ten_minutes():
    stage = Queue()
    assert stage.job("PENDING", exclusive=True, reason="ReqNodeNotAvail") == []
    assert stage.machine.due(stage.now) == stage.now + 600
    assert stage.later(599) == []
    found = stage.later(1)[-1]
    assert (found.klass, found.stage, found.severity, found.entity) == (
        "capacity", Of.CONFIRMED, "warning", "platform",
    )  # fmt: skip
    assert "job 7001 of run demo has waited for more than 10 min" in found.sentence
    assert "ReqNodeNotAvail" in found.sentence
    assert stage.later(1200)[-1].severity == "critical"
    assert stage.job("RUNNING", successors=2)[-1].stage is Of.CLEARED


def test_the_wait_counts_from_what_the_scheduler_says():
    assert Queue().job("PENDING", exclusive=True, queued_s=700)[-1].klass == "capacity"


def test_a_wait_in_a_common_queue_is_none():
    stage = Queue()
    stage.job("PENDING")
    assert stage.later(86_400) == []


def test_a_successor_that_waits_behind_the_running_job_is_no_alarm_until_that_has_ended():
    stage = Queue()
    stage.launch()
    stage.job("RUNNING", successors=2)
    stage.job("PENDING", job_id="7002", exclusive=True)
    assert stage.later(7_200) == []
    stage.job("FAILED")
    assert stage.later(1)[-1].klass == "capacity"


def test_a_job_that_waits_for_the_next_attempt_leaves_the_present_one_under_watch():
    stage = Queue()
    stage.launch()
    stage.send("scheduler.job", job_id="7002", state="PENDING", attempt=2)
    assert stage.machine.view().attempt == 1


@pytest.mark.parametrize(
    ("told", "words"), [(0, "no jobs of run demo wait behind job 7001"), (1, "1 job of"), ([], "no jobs")]
)
def test_fewer_than_two_successors_are_a_warning(told, words):
    stage = Queue()
    stage.launch()
    found = stage.job("RUNNING", successors=told)[-1]
    assert (found.klass, found.severity) == ("scheduler", "warning")
    assert words in found.sentence
    assert stage.job("RUNNING", successors=["7002", "7003"])[-1].stage is Of.CLEARED


def test_an_adapter_that_does_not_tell_successors_warns_of_nothing():
    stage = Queue()
    stage.launch()
    assert stage.job("RUNNING") == []


def test_a_cancellation_by_a_person_is_told_and_leaves_nothing_open():
    stage = Queue()
    stage.launch()
    found = stage.job("CANCELLED", by="ana")
    assert "cancelled by ana" in found[-1].sentence
    assert found[-1].severity == "info"
    assert [item.stage for item in stage.later(2)] == [Of.SUSPECT, Of.CLEARED]
    assert stage.machine.view().state == "resting"


def test_our_own_kill_is_no_news():
    stage = Queue()
    stage.launch()
    assert stage.job("CANCELLED", by="middlewatch") == []


def ends(stage, hours, **words):
    stage.send("capacity.notice", what="allocation_end", begins_at_ms=round((stage.now + hours * 3600) * 1000), **words)
    return stage.said()


def test_an_allocation_that_ends_within_a_day_without_a_successor_is_a_warning():
    stage = Queue()
    stage.launch()
    stage.job("RUNNING")
    assert ends(stage, 30, run=None) == []
    assert stage.machine.due(stage.now) <= stage.now + 6 * 3600
    found = [item for item in stage.later(6 * 3600) if item.klass == "capacity"]
    assert "ends within 24 h and no job is known to follow" in found[-1].sentence
    assert [item for item in stage.job("RUNNING", successors=2) if item.klass == "capacity"][-1].stage is Of.CLEARED


def test_an_allocation_with_a_successor_and_one_of_other_nodes_are_no_trouble():
    stage = Queue()
    stage.launch()
    stage.job("RUNNING", successors=2)
    assert ends(stage, 2) == []
    stage.job("RUNNING", successors=2)
    assert ends(stage, 2, run=None, nodes=["elsewhere"]) == []


def test_repeated_and_late_words_of_a_job_change_nothing():
    stage = Queue()
    stage.launch()
    late = stage.signal("scheduler.job", job_id="7001", state="PENDING", exclusive=True)
    stage.now += 10
    stage.job("RUNNING")
    stage.machine.observe(late, stage.now)
    assert stage.later(7_200) == []


def test_the_number_of_jobs_is_bounded():
    stage = Queue()
    stage.launch()
    for number in range(500):
        stage.job("COMPLETING" if number == 499 else "TIMEOUT", job_id=str(number))
    assert len(stage.machine.snapshot()["state"]["queue"]["jobs"]) <= 64


@pytest.mark.parametrize(
    "data",
    [
        {"state": 5},
        {"state": "PENDING", "exclusive": "yes", "queued_s": "x"},
        {"state": "RUNNING", "successors": -3},
        {"state": "RUNNING", "successors": {"a": 1}},
    ],
)
def test_strange_words_say_nothing(data):
    stage = Queue(policy=RunPolicy())
    stage.launch()
    stage.send("scheduler.job", job_id=None, **data)
    stage.send("capacity.notice", what="allocation_end", begins_at_ms="soon")
    assert stage.later(2_000) == []
