"""An attempt that we meant to end and do not end is watched again, so that its next crash is found."""

from datetime import timedelta

import pytest

from controlplane.fleet.commands import LEASE
from controlplane.fleet.models import Command
from controlplane.incidents.models import Finding
from controlplane.runbooks import actions, starting
from controlplane.watch import tasks
from tests.flows.conftest import training
from tests.runbooks.test_answers import tell

pytestmark = pytest.mark.django_db
AGAIN = "note: Attempt 1 is watched again: nothing ends it any more."


@pytest.fixture
def cluster():
    return training(steps=6, size=2, spares=1, supports=["save_now", "stop_now"])


def stop_by_switch(cluster):
    return starting.start("stop-by-switch", cluster.run, "ana", cluster.now, {"why": "the grant is used up"})


def crash_is_found(cluster):
    cluster.kill_rank(1)
    found = Finding.objects.filter(incident__run=cluster.run, sentence__contains="was killed by signal 9")
    cluster.until(found.exists, limit=20)
    return True


def test_a_kill_switch_that_is_taken_back_before_a_rank_took_it_leaves_a_training_that_is_watched(cluster):
    cluster.mute_kinds.add("switch.arm")
    execution = stop_by_switch(cluster)
    cluster.until(lambda: cluster.newest().stopping_at is not None, limit=5)
    cluster.also["switch.disarm"] = lambda *_: {"disarmed": True}
    cluster.mute_kinds.clear()
    cluster.fail_kinds["switch.arm"] = "disarmed before any rank took it"
    cluster.tick(2)
    actions.undo(execution, "ana", cluster.now)
    Command.objects.filter(kind="switch.arm").update(leased_until=None, deadline=cluster.now + timedelta(minutes=1))
    cluster.until(lambda: cluster.newest().stopping_at is None, limit=60)
    cluster.tick(2)
    assert AGAIN in cluster.told("run:demo")
    assert crash_is_found(cluster)


@pytest.mark.parametrize("state", ["pending", "leased"])
def test_a_stop_that_a_person_calls_back_leaves_a_training_that_is_watched(cluster, state):
    tell(cluster, "gpu_fault", weight=6.0, action="quarantine_now")
    cluster.mute_kinds.add("attempt.stop")
    cluster.until(lambda: cluster.sent("attempt.stop").exists())
    until = cluster.now + LEASE if state == "leased" else None
    cluster.sent("attempt.stop").update(state=state, leased_until=until)
    actions.stop(cluster.execution(), "ana", cluster.now)
    assert (cluster.newest().stopping_at is None) is (state == "pending")
    cluster.tick()
    tasks._expire(cluster.now + timedelta(seconds=20))
    assert (cluster.newest().stopping_at, cluster.fresh().state) == (None, "running")
    assert crash_is_found(cluster)


def test_ranks_that_took_a_kill_switch_end_as_ours_whoever_stops_the_runbook(cluster):
    cluster.also["switch.arm"] = lambda *_: {"acknowledged": [0], "step": 6}
    execution = stop_by_switch(cluster)
    cluster.tick(3)
    actions.stop(execution, "ana", cluster.now)
    assert cluster.newest().stopping_at is not None
