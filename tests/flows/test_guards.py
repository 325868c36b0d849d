from datetime import timedelta

import pytest

from controlplane.domain.errors import Conflict, Refused
from controlplane.runbooks import actions as runbooks
from controlplane.runbooks.models import Bucket, BucketSpend
from controlplane.runs import actions as runs
from tests.flows.conftest import trained, training
from tests.flows.world import Cluster


def proposed(cluster):
    return cluster.execution() is not None and cluster.execution().state == "proposed"


def test_a_run_that_asks_waits_for_a_person_and_goes_on_when_approved(db):
    cluster = training(mode="ask")
    cluster.kill_rank(2)
    cluster.until(lambda: proposed(cluster))
    cluster.rest(10)
    assert cluster.sent("collect").count() == cluster.sent("attempt.stop").count() == 0
    runbooks.approve(cluster.execution(), "ben", cluster.now)
    cluster.until(lambda: len(cluster.launches) == 2)
    assert cluster.execution().approved_by == "ben"
    assert any("ben approved" in line for line in cluster.told(f"incident:{cluster.incident().pk}"))


def test_a_rejected_proposal_is_not_made_again(db):
    cluster = training(mode="ask")
    cluster.kill_rank(2)
    cluster.until(lambda: proposed(cluster))
    runbooks.reject(cluster.execution(), "ben", cluster.now, "I am on it")
    cluster.rest(20)
    assert cluster.run.executions.count() == 1
    with pytest.raises(Conflict):
        runbooks.approve(cluster.execution(), "ana", cluster.now)


def test_a_watched_run_is_only_told_what_would_be_done(db):
    cluster = training(mode="watch")
    cluster.kill_rank(2)
    cluster.until(lambda: proposed(cluster))
    cluster.rest(10)
    assert cluster.execution().held_by == "watch"
    assert cluster.sent("attempt.stop").count() == 0
    with pytest.raises(Refused):
        runbooks.approve(cluster.execution(), "ben", cluster.now)


def test_a_held_run_is_not_touched_until_the_hold_is_lifted(cluster):
    runs.hold(cluster.run, "ana", cluster.now)
    cluster.kill_rank(2)
    cluster.until(lambda: proposed(cluster))
    cluster.rest(20)
    assert cluster.incident().decision["held_by"] == "operator"
    assert cluster.stops == []
    runs.resume(cluster.run, "ana", cluster.now)
    cluster.until(lambda: len(cluster.launches) == 2)


def test_a_hold_in_the_middle_keeps_the_next_act_back(cluster):
    cluster.mute_kinds.add("attempt.stop")
    cluster.kill_rank(2)
    cluster.until(lambda: cluster.sent("attempt.stop").exists())
    runs.hold(cluster.run, "ana", cluster.now)
    cluster.mute_kinds.clear()
    cluster.rest(90)
    assert len(cluster.launches) == 1
    assert cluster.execution().held_by == "operator"
    runs.resume(cluster.run, "ana", cluster.now)
    cluster.until(lambda: len(cluster.launches) == 2)
    assert cluster.run.executions.count() == 1


def test_a_paused_runbook_does_nothing_more_until_it_is_resumed(cluster):
    cluster.mute_kinds.add("attempt.stop")
    cluster.kill_rank(2)
    cluster.until(lambda: cluster.sent("attempt.stop").exists())
    runbooks.pause(cluster.execution(), "ana", cluster.now)
    cluster.mute_kinds.clear()
    cluster.rest(90)
    assert cluster.execution().steps.last().name == "stop"
    runbooks.resume(cluster.execution(), "ana", cluster.now)
    cluster.until(lambda: len(cluster.launches) == 2)


def test_a_stopped_runbook_leaves_the_run_to_the_person(cluster):
    cluster.mute_kinds.add("attempt.stop")
    cluster.kill_rank(2)
    cluster.until(lambda: cluster.sent("attempt.stop").exists())
    runbooks.stop(cluster.execution(), "ana", cluster.now)
    cluster.mute_kinds.clear()
    cluster.rest(30)
    assert len(cluster.launches) == 1
    assert cluster.run.executions.count() == 1


def test_an_empty_bucket_proposes_and_a_refilled_one_acts(db):
    cluster = Cluster()
    cluster.policy |= {"restart_capacity": 1, "restart_refill_s": 60.0, "backoff_s": 0.0}
    trained(cluster.build())
    cluster.kill_rank(2)
    cluster.until(lambda: len(cluster.launches) == 2 and cluster.incident().state == "resolved")
    assert BucketSpend.objects.count() == 1
    cluster.kill_rank(1)
    cluster.until(lambda: proposed(cluster))
    assert cluster.execution().held_by == "bucket"
    cluster.until(lambda: len(cluster.launches) == 3, limit=70)
    assert BucketSpend.objects.count() == 2


def test_tokens_survive_a_restart_of_the_control_plane(cluster):
    cluster.kill_rank(2)
    cluster.until(lambda: cluster.stops)
    left = Bucket.objects.get().tokens
    cluster.owner = "another:1"
    cluster.tick(3)
    assert Bucket.objects.get().tokens == pytest.approx(left)
    assert left == pytest.approx(3)


def test_an_attempt_that_a_person_launched_meanwhile_ends_the_runbook(cluster):
    cluster.fail_kinds["checkpoints.scan"] = "no such folder"
    cluster.kill_rank(2)
    cluster.until(lambda: cluster.stops and cluster.newest().state == "exited")
    runbooks.launch(cluster.run, None, "ana", cluster.now)
    cluster.rest(10)
    assert cluster.execution().state == "stopped"
    assert "launched meanwhile" in cluster.execution().outcome
    assert [item["attempt"] for item in cluster.launches] == [1, 2]


def test_a_stopped_run_is_not_restarted(cluster):
    runs.stop(cluster.run, "ana", cluster.now)
    cluster.rest(40)
    assert cluster.fresh().state == "stopped"
    assert cluster.incident() is None
    assert len(cluster.launches) == 1
    assert cluster.newest().state == "exited"


def test_a_restart_without_durable_progress_waits_longer(db):
    cluster = Cluster(save_every=1000)
    trained(cluster.build())
    cluster.kill_rank(2)
    cluster.until(lambda: len(cluster.launches) == 2)
    cluster.kill_rank(2, signal=11)
    second = cluster.now
    cluster.until(lambda: len(cluster.launches) == 3)
    assert cluster.now - second >= timedelta(seconds=20)
    assert cluster.incident().decision["held_by"] is None
