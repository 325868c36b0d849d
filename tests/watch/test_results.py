"""What follows from the launcher's answer where no runbook waits for it."""

from datetime import timedelta

import pytest

from controlplane.fleet import actions as fleet
from controlplane.fleet.models import Command, CommandState
from controlplane.runs import actions as runs
from controlplane.runs.book import Book
from controlplane.watch import fleet as fleet_watch
from controlplane.watch import pipeline, results
from tests.flows.conftest import trained
from tests.flows.world import HEAD, Cluster

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _fresh_memory():
    pipeline.memory.forget()
    fleet_watch.memory.forget()


@pytest.fixture
def cluster():
    return Cluster(size=2, spares=1).build()


def test_an_attempt_stopped_before_the_launcher_heard_of_it_is_over_and_frees_its_nodes(cluster):
    cluster.alive.discard(HEAD)
    cluster.launch()
    runs.stop(cluster.run, "ana", cluster.now)
    Command.objects.filter(kind="attempt.start").update(deadline=cluster.now)
    cluster.alive.add(HEAD)
    cluster.tick(5)
    assert cluster.newest().state == "exited"
    assert cluster.launches == []


def test_an_attempt_whose_start_is_refused_because_it_was_stopped_first_is_over(cluster):
    cluster.fail_kinds["attempt.start"] = "attempt 1 of run demo was stopped before it started"
    cluster.mute_kinds.add("attempt.stop")
    cluster.alive.discard(HEAD)
    cluster.launch()
    runs.stop(cluster.run, "ana", cluster.now)
    cluster.alive.add(HEAD)
    cluster.tick(5)
    assert cluster.newest().state == "exited"


def test_a_stop_that_left_survivors_closes_nothing(cluster):
    trained(cluster, steps=3)
    cluster.mute_kinds.add("attempt.stop")
    runs.stop(cluster.run, "ana", cluster.now)
    command = cluster.sent("attempt.stop").get()
    command.state, command.result = CommandState.SUCCEEDED, {"data": {"stopped": False, "survivors": [{"rank": 1}]}}
    results.ended(command, cluster.now, Book(cluster.now))
    assert cluster.newest().state == "running"


def test_a_start_that_nobody_reported_on_in_time_does_not_close_an_attempt_that_trains(cluster):
    trained(cluster, steps=3)
    command = cluster.sent("attempt.start").get()
    for state in (CommandState.EXPIRED, CommandState.FAILED):
        command.state = state
        results.ended(command, cluster.now + timedelta(minutes=2), Book(cluster.now))
    assert (cluster.newest().state, cluster.newest().stopping_at) == ("running", None)


def test_an_attempt_whose_start_came_to_nothing_at_its_deadline_is_stopped_for_it_may_still_begin(cluster):
    cluster.fail_kinds["attempt.start"] = "not finished before the deadline"
    cluster.launch()
    cluster.tick(2)
    assert cluster.newest().state == "exited"
    assert cluster.sent("attempt.stop").get().args["attempt"] == 1


def test_what_a_scheduler_did_not_do_about_a_node_is_told_once(cluster):
    for kind, state, data in [
        ("nodes.drain", "failed", {}),
        ("nodes.resume", "succeeded", {"resumed": [], "left": {"n01": "drained by ana"}}),
    ]:  # fmt: skip
        args = {"nodes": ["n01"], "reason": "Xid"} if kind == "nodes.drain" else {"nodes": ["n01"]}
        fleet.send_command(HEAD, kind, args, key=kind, deadline=cluster.now + timedelta(minutes=1), now=cluster.now)
        cluster.mute_kinds.add(kind)
        command = Command.objects.get(kind=kind)
        cluster.say(HEAD, "command.result", command_id=str(command.pk), state=state, output_tail="no answer", data=data)
        cluster.hear()
    told = [line for line in cluster.told("fleet") if "Could not" in line]
    assert told == [
        "finding: Could not drain node n01: no answer.",
        "finding: Could not take back node n01: drained by ana.",
    ]
