"""What must never happen, however people, launchers and faults cross each other."""

from datetime import timedelta

import pytest

from controlplane.domain.errors import Conflict
from controlplane.fleet import actions as fleet
from controlplane.incidents import actions as incidents
from controlplane.quarantine import actions as quarantine
from controlplane.runbooks import actions as runbooks
from controlplane.runs import actions as runs
from controlplane.watch import tasks
from tests.flows.conftest import training
from tests.flows.world import HEAD


def working_on(cluster, kind):
    """Break a rank and wait until the runbook has sent a command of this kind, which nobody takes up."""
    cluster.mute_kinds.add(kind)
    cluster.kill_rank(2)
    cluster.until(lambda: cluster.sent(kind).filter(execution_id__isnull=False).exists())


def stopped(cluster):
    """Break a rank and wait until the runbook has stopped the attempt and cannot find a checkpoint."""
    cluster.fail_kinds["checkpoints.scan"] = "no such folder"
    cluster.kill_rank(2)
    cluster.until(lambda: cluster.stops and cluster.newest().state == "exited")


def pass_minutes(cluster, minutes):
    """Let minutes go by with one beat of every living agent in each."""
    for _ in range(minutes):
        cluster.now += timedelta(minutes=1)
        for node in sorted(cluster.alive):
            cluster.say(node, "node.heartbeat", uptime_s=1.0)
        cluster.hear()


def test_a_command_that_nobody_took_up_is_called_back_by_a_hold(cluster):
    cluster.alive.discard(HEAD)
    cluster.kill_rank(2)
    cluster.until(lambda: cluster.sent("attempt.stop").exists())
    runs.hold(cluster.run, "ana", cluster.now)
    cluster.alive.add(HEAD)
    cluster.rest(60)
    assert cluster.stops == []
    runs.resume(cluster.run, "ana", cluster.now)
    cluster.until(lambda: len(cluster.launches) == 2)
    assert cluster.run.executions.count() == 1


def test_a_stopped_runbook_kills_nothing_any_more(cluster):
    cluster.alive.discard(HEAD)
    cluster.kill_rank(2)
    cluster.until(lambda: cluster.sent("attempt.stop").exists())
    runbooks.stop(cluster.execution(), "ana", cluster.now)
    cluster.alive.add(HEAD)
    cluster.rest(60)
    assert cluster.stops == []


def test_a_launch_that_nobody_took_up_does_not_happen_after_the_run_was_stopped(cluster):
    working_on(cluster, "attempt.start")
    cluster.mute_kinds.clear()
    cluster.alive.discard(HEAD)
    runs.stop(cluster.run, "ana", cluster.now)
    cluster.alive.add(HEAD)
    cluster.rest(60)
    assert len(cluster.launches) == 1
    assert cluster.fresh().state == "stopped"


def test_a_launcher_that_is_away_for_minutes_costs_no_try_and_keeps_no_rank_alive(cluster):
    cluster.alive.discard(HEAD)
    cluster.kill_rank(2)
    took = cluster.until(lambda: not any(rank.alive for rank in cluster.ranks.values()), limit=30)
    assert took <= 25
    cluster.until(lambda: cluster.newest().state == "exited", limit=5)
    cluster.rest(40)
    pass_minutes(cluster, 10)
    assert cluster.run.executions.count() == 1
    assert cluster.execution().held_by == "launcher"
    cluster.alive.add(HEAD)
    cluster.until(lambda: len(cluster.launches) == 2)
    assert [order["attempt"] for order in cluster.stops] == [1]
    assert cluster.run.executions.count() == 1


def test_a_launch_of_unknown_outcome_is_stopped_before_the_next(cluster):
    working_on(cluster, "attempt.start")
    pass_minutes(cluster, 2)
    cluster.until(lambda: cluster.newest().number == 3)
    orders = cluster.sent("attempt.stop").filter(args__attempt=2) | cluster.sent("attempt.start").filter(
        args__attempt=3
    )
    assert [order.kind for order in orders.order_by("created_at")] == ["attempt.stop", "attempt.start"]


def test_a_run_without_nodes_is_held_for_long_and_goes_on_when_a_node_is_released(db):
    cluster = training(spares=0)
    fleet.hold_node("n03", held=True)
    cluster.kill_rank(2)
    cluster.tick(10)
    pass_minutes(cluster, 30)
    assert cluster.execution().held_by == "nodes"
    assert cluster.run.executions.count() == 1
    assert any(line.startswith("hold: The runbook waits") for line in cluster.told(f"incident:{cluster.incident().pk}"))
    fleet.hold_node("n03", held=False)
    cluster.until(lambda: len(cluster.launches) == 2)


def test_a_lost_node_that_comes_back_stays_quarantined_and_what_its_ranks_tell_opens_nothing(cluster):
    cluster.lose_node("n02")
    cluster.until(lambda: cluster.incident() is not None and cluster.incident().state == "resolved")
    assert cluster.node("n02").state == "quarantined"
    cluster.alive.add("n02")
    cluster.say("n02", "node.hello", hardware={"machine_id": "n02"}, capabilities=[])
    cluster.say("n02", "rank.exited", attempt=1, rank=1, about_run=True, exit_code=None, signal=9)
    cluster.rest(20)
    assert cluster.node("n02").state == "quarantined"
    assert cluster.run.incidents.count() == 1
    assert len(cluster.launches) == 2


def test_a_paused_runbook_that_a_person_launched_past_does_not_stand_in_the_way_of_the_next(cluster):
    stopped(cluster)
    runbooks.pause(cluster.execution(), "ana", cluster.now)
    runbooks.launch(cluster.run, None, "ana", cluster.now)
    cluster.fail_kinds.clear()
    cluster.rest(20)
    cluster.kill_rank(1)
    cluster.until(lambda: len(cluster.launches) == 3)


def test_a_run_that_a_person_launched_after_a_stopped_runbook_counts_as_running(cluster):
    stopped(cluster)
    runbooks.stop(cluster.execution(), "ana", cluster.now)
    runbooks.launch(cluster.run, None, "ana", cluster.now)
    assert cluster.fresh().state == "waiting"
    cluster.tick(5)
    assert cluster.fresh().state == "running"


def test_one_run_is_worked_on_by_one_runbook_at_a_time(db):
    cluster = training(mode="ask")
    cluster.kill_rank(2)
    cluster.until(lambda: cluster.execution() is not None)
    first = cluster.execution()
    second = cluster.run.executions.create(
        runbook=first.runbook, version=1, incident=first.incident, attempt=1, state="running",
        created_at=cluster.now, key="another",
    )  # fmt: skip
    with pytest.raises(Conflict):
        runbooks.approve(first, "ben", cluster.now)
    second.delete()
    runbooks.approve(first, "ben", cluster.now)


def test_an_incident_that_a_person_resolved_stops_nothing(cluster):
    cluster.mute_kinds.add("collect")
    cluster.stop_rank(1)
    cluster.until(lambda: cluster.execution() is not None)
    incidents.resolve_by_hand(cluster.incident(), "ana", cluster.now)
    cluster.go_on(1)
    cluster.rest(30)
    assert cluster.stops == []
    assert cluster.run.executions.get().outcome.startswith("a person resolved")


def test_an_attempt_that_finishes_while_it_is_being_stopped_is_not_begun_again(cluster):
    working_on(cluster, "attempt.stop")
    cluster.complete()
    cluster.mute_kinds.clear()
    cluster.rest(60)
    assert cluster.fresh().state == "completed"
    assert len(cluster.launches) == 1
    assert cluster.execution().state == "stopped"


def test_a_quarantined_node_is_not_launched_on_although_it_was_chosen(cluster):
    working_on(cluster, "checkpoints.scan")
    quarantine.quarantine("n01", "smells of smoke", actor_kind="person", actor="ana", now=cluster.now)
    cluster.mute_kinds.clear()
    cluster.until(lambda: len(cluster.launches) == 2)
    assert "n01" not in cluster.launches[-1]["nodes"]


def test_a_launch_by_hand_takes_no_spare_that_fell_silent(cluster):
    stopped(cluster)
    runbooks.stop(cluster.execution(), "ana", cluster.now)
    cluster.alive -= {"n01", "n05"}
    cluster.rest(40)
    attempt = runbooks.launch(cluster.run, None, "ana", cluster.now)
    assert attempt.nodes == ["n02", "n03", "n04", "n06"]


def test_a_launch_by_hand_that_nobody_answered_is_stopped_in_case_it_happened(cluster):
    stopped(cluster)
    runbooks.stop(cluster.execution(), "ana", cluster.now)
    cluster.mute_kinds.add("attempt.start")
    attempt = runbooks.launch(cluster.run, None, "ana", cluster.now)
    cluster.now += timedelta(minutes=2)
    tasks._expire(cluster.now)
    assert cluster.newest().reason == "failed"
    assert cluster.sent("attempt.stop").filter(args__attempt=attempt.number).exists()


def test_a_stopped_run_ends_even_if_its_launcher_is_away_for_an_hour(cluster):
    cluster.alive.discard(HEAD)
    runs.stop(cluster.run, "ana", cluster.now)
    pass_minutes(cluster, 60)
    cluster.alive.add(HEAD)
    cluster.tick(3)
    assert cluster.newest().state == "exited"
