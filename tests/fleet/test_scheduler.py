"""The last words of schedulers: the newest counts, only launchers speak, and old words are unknown."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from controlplane.domain.fleet.scheduling import OLD_AFTER_S, UNKNOWN
from controlplane.domain.signals import Signal
from controlplane.fleet import actions, scheduler
from controlplane.fleet.models import Node, SchedulerJob

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 11, 30, 2, 0, tzinfo=UTC)


@pytest.fixture(autouse=True)
def head():
    Node.objects.create(name="head", head=True, enrolled_at=NOW, state_since=NOW)
    Node.objects.create(name="n01", enrolled_at=NOW, state_since=NOW)


def signal(kind, data, *, at=0.0, by="head", run=None):
    received = NOW.timestamp() + at
    return Signal(kind=kind, received=received, at_ms=int(received * 1000), node=by, run=run, data=data)


def node(state, *, at=0.0, by="head", **data):
    return actions.note_nodes([signal("scheduler.node", {"node": "n01", "state": state, **data}, at=at, by=by)])


def job(state, *, at=0.0, run="demo", job_id="7001", **data):
    told = {"job_id": job_id, "state": state, **data}
    return actions.note_jobs("demo", [signal("scheduler.job", told, at=at, run=run)])


def test_a_repeated_word_is_no_news_but_keeps_the_state_known():
    assert len(node("idle")) == 1
    assert node("idle", at=60) == []
    (row,) = scheduler.words(["n01"])
    assert (row.since, row.heard_at) == (NOW, NOW + timedelta(seconds=60))


def test_a_word_that_is_not_repeated_for_three_minutes_is_unknown():
    node("drained", reason="fan", owner="ana")
    word = scheduler.word(scheduler.words()[0])
    assert word.at(NOW.timestamp() + OLD_AFTER_S) == "drained"
    assert word.at(NOW.timestamp() + OLD_AFTER_S + 1) == UNKNOWN
    assert scheduler.closed("head", NOW) == {"n01": "drained by ana (fan) at the scheduler"}
    assert scheduler.closed("head", NOW + timedelta(seconds=OLD_AFTER_S + 1)) == {}


def test_an_older_word_that_arrives_late_changes_nothing():
    node("drained", at=10)
    assert node("idle", at=5) == []
    assert scheduler.words()[0].state == "drained"


def test_a_launcher_whose_clock_was_an_hour_ahead_is_heard_again_once_it_is_set_right():
    ahead, right = NOW.timestamp() + 3600, NOW.timestamp() + 60
    for state, clock in (("idle", ahead), ("down", right)):
        word = replace(signal("scheduler.node", {"node": "n01", "state": state}, at=60), at_ms=int(clock * 1000))
        actions.note_nodes([word])
    assert scheduler.words()[0].state == "down"
    for state, clock in (("RUNNING", ahead), ("CANCELLED", right)):
        told = {"job_id": "7001", "state": state}
        word = replace(signal("scheduler.job", told, at=60, run="demo"), at_ms=int(clock * 1000))
        actions.note_jobs("demo", [word])
    assert SchedulerJob.objects.get().state == "CANCELLED"


def test_a_node_that_drains_and_then_is_drained_has_been_out_since_the_first_word():
    node("draining", reason="fan")
    node("drained", at=30, reason="fan")
    assert scheduler.words()[0].since == NOW
    node("drained", at=60, reason="disk")
    assert scheduler.words()[0].since == NOW + timedelta(seconds=60)


def test_only_an_agent_that_launches_speaks_for_a_scheduler():
    assert node("down", by="n01") == []
    assert scheduler.words() == []


def test_a_job_keeps_its_last_state_and_what_was_told_of_it():
    assert len(job("PENDING", successors=["7002", "7003"], nodes=["n01"])) == 1
    assert job("PENDING", at=60) == []
    assert len(job("CANCELLED", at=70, by="ana")) == 1
    (row,) = scheduler.jobs("demo")
    assert (row.state, row.by, row.successors, row.nodes) == ("CANCELLED", "ana", 2, ["n01"])


def test_a_job_of_another_run_is_not_taken():
    assert job("RUNNING", run="other") == []


def test_the_jobs_of_a_run_are_bounded_and_the_one_heard_longest_ago_goes(monkeypatch):
    monkeypatch.setattr(scheduler, "MAX_JOBS", 2)
    for number in range(3):
        job("PENDING", at=number, job_id=str(number))
    assert sorted(SchedulerJob.objects.values_list("job_id", flat=True)) == ["1", "2"]


def test_what_nobody_has_repeated_for_a_week_is_forgotten():
    node("idle")
    job("RUNNING")
    assert actions.forget_old(NOW + timedelta(days=7)) == 0
    assert actions.forget_old(NOW + timedelta(days=7, seconds=1)) == 2


def test_jobs_at_work_stand_before_those_that_are_over():
    job("RUNNING", job_id="1")
    job("COMPLETED", at=5, job_id="2")
    assert [row.job_id for row in scheduler.jobs("demo")] == ["1", "2"]
