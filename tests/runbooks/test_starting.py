"""What people start: switches, holds, changes; and what the rungs of a teardown do when the first one fails."""

from datetime import timedelta

import pytest

from controlplane.analytics.account import account
from controlplane.domain.errors import Conflict, Invalid, Refused
from controlplane.incidents.models import ActRecord, Incident
from controlplane.quarantine import actions as quarantine
from controlplane.runbooks import actions, answering, modes, queries, starting, switches
from controlplane.runs import actions as runs
from controlplane.runs.book import Book
from tests.flows.conftest import training

pytestmark = pytest.mark.django_db


@pytest.fixture
def cluster():
    return training(steps=6, size=2, spares=1)


def hold(cluster, why="the loss drifts"):
    return starting.start("numerical-hold", cluster.run, "ana", cluster.now, {"hypothesis": why})


def test_a_numerical_hold_pins_holds_asks_and_goes_on_as_the_owner_says(cluster):
    execution = hold(cluster)
    cluster.tick()
    run = cluster.fresh()
    assert (run.held, run.held_by) == (True, f"numerical-hold (execution {execution.pk})")
    assert cluster.run.checkpoints.get(step=5).state == "pinned"
    asked = answering.question(cluster.execution())
    assert "held for its numbers (the loss drifts); the checkpoint of step 5 is pinned" in asked.question
    assert [row.do for row in ActRecord.objects.order_by("pk")] == ["hold", "page"]
    with pytest.raises(Invalid):
        answering.answer(cluster.execution(), "sell it", "ana", cluster.now)
    answering.answer(cluster.execution(), "go on as it is", "ben", cluster.now, "a bad batch, seen before")
    with pytest.raises(Conflict):
        answering.answer(cluster.execution(), "go on as it is", "ana", cluster.now)
    cluster.tick()
    assert (cluster.execution().state, cluster.fresh().held) == ("succeeded", False)
    assert any("ben decided: go on as it is. a bad batch, seen before" in line for line in cluster.told("run:demo"))
    assert starting.tidy(cluster.now) == 1
    assert (cluster.incident().state, cluster.incident().klass) == ("resolved", "planned")


def test_nothing_restarts_while_the_numbers_are_looked_into(cluster):
    execution = hold(cluster)
    cluster.tick()
    cluster.kill_rank(1)
    cluster.tick(20)
    assert cluster.stops == []
    answering.answer(cluster.execution(), "leave it held", "ana", cluster.now)
    cluster.tick(5)
    execution.refresh_from_db()
    assert (execution.state, cluster.fresh().held, cluster.stops) == ("stopped", True, [])


def test_a_persons_hold_is_not_lifted_by_a_runbook(cluster):
    hold(cluster)
    cluster.tick()
    runs.resume(cluster.fresh(), "ana", cluster.now)
    runs.hold(cluster.fresh(), "ana", cluster.now)
    answering.answer(cluster.execution(), "go on as it is", "ben", cluster.now)
    cluster.tick(5)
    assert (cluster.fresh().held, cluster.fresh().held_by) == (True, "ana")


@pytest.mark.parametrize(
    ("runbook", "args", "wrong"),
    [
        ("numerical-hold", {}, Invalid),
        ("numerical-hold", {"hypothesis": "x", "more": "y"}, Invalid),
        ("numerical-hold", {"hypothesis": "x" * 501}, Invalid),
        ("numerical-hold", {"hypothesis": "a\u202eb"}, Invalid),
        ("fault-drill", {"fault": "earthquake"}, Invalid),
        ("restart-after-crash", {}, Refused),
        ("teardown", {}, Refused),
    ],
)
def test_what_nobody_may_start_or_is_asked_wrongly_is_refused_and_leaves_nothing(cluster, runbook, args, wrong):
    with pytest.raises(wrong):
        starting.start(runbook, cluster.run, "ana", cluster.now, args)
    assert Incident.objects.count() == 0


def test_nothing_is_started_on_a_run_that_is_watched_held_or_worked_on(cluster):
    hold(cluster)
    with pytest.raises(Conflict, match="another runbook works on demo"):
        hold(cluster)
    actions.stop(cluster.execution(), "ana", cluster.now)
    runs.hold(cluster.run, "ana", cluster.now)
    with pytest.raises(Refused, match="held by ana"):
        hold(cluster)
    runs.set_mode(cluster.run, "watch", "ana", cluster.now)
    with pytest.raises(Refused, match="set to watch"):
        hold(cluster)


def test_nothing_is_started_while_automation_is_off_or_the_runbook_is_only_to_watch(cluster):
    switches.off(None, "ben", "a rehearsal", cluster.now)
    with pytest.raises(Refused, match="ben switched automation off everywhere: a rehearsal"):
        hold(cluster)
    switches.on(None, "ben", cluster.now)
    modes.set_mode("numerical-hold", None, "watch", "ben", cluster.now)
    with pytest.raises(Refused, match="numerical-hold is set to watch for demo"):
        hold(cluster)
    assert cluster.run.executions.count() == 0


def test_a_rank_that_the_launcher_cannot_end_is_killed_by_its_nodes_agent(cluster):
    cluster.fail_kinds["attempt.stop"] = "the launcher is on strike"
    cluster.kill_rank(1)
    cluster.until(lambda: len(cluster.launches) == 2, limit=60)
    assert {command.node.name for command in cluster.sent("ranks.stop")} == {"n01", "n02"}
    assert any("the agents of n01, n02 proved it" in line for line in cluster.told())
    assert cluster.node("n02").state == "healthy"


def test_a_node_that_speaks_and_cannot_end_its_ranks_is_a_persons(cluster):
    cluster.fail_kinds = {
        "attempt.stop": "on strike",
        "ranks.stop": "stuck in the kernel",
        "nodes.drain": "no such thing",
    }
    cluster.kill_rank(1)
    cluster.until(lambda: queries.live_of(cluster.run).count() == 0 and cluster.execution() is not None, limit=120)
    assert len(cluster.launches) == 1
    assert any("still speaks and could not end its ranks" in line for line in cluster.told())


def test_a_planned_change_stops_the_run_asks_and_launches_again_and_is_no_interruption(cluster):
    cluster.norm = 1.5
    cluster.tick(2)
    starting.start("planned-change", cluster.run, "ana", cluster.now, {"what": "a new driver"})
    cluster.until(lambda: answering.question(cluster.execution()) is not None, limit=30)
    assert "is stopped for: a new driver. Is it applied" in answering.question(cluster.execution()).question
    assert (len(cluster.stops), len(cluster.launches)) == (1, 1)
    cluster.tick(10)
    answering.answer(cluster.execution(), "go on", "ana", cluster.now)
    cluster.norm = 4.5
    cluster.until(lambda: cluster.execution().state == "succeeded", limit=30)
    said = "the gradient norm was 1.5 before the change and is 4.5 behind it"
    assert f"step: Compared with before: {said}, apart by more than a factor of 2." in cluster.told()
    assert ActRecord.objects.get(do="notify", why=f"demo: {said}").proposed is False
    assert cluster.launches[-1]["resume"]["step"] == 5
    assert (Incident.objects.get().klass, Incident.objects.get().state) == ("planned", "resolved")
    made = account(cluster.run, begin=cluster.run.created_at, end=cluster.now).reliability
    assert (made.interruptions, made.planned) == (0, 1)


def test_gradient_norms_that_a_node_outside_the_attempt_tells_are_not_compared(cluster):
    cluster.norm = 1.5
    cluster.tick(2)
    starting.start("planned-change", cluster.run, "ana", cluster.now, {"what": "a new driver"})
    cluster.until(lambda: answering.question(cluster.execution()) is not None, limit=30)
    answering.answer(cluster.execution(), "go on", "ana", cluster.now)
    cluster.until(lambda: len(cluster.launches) == 2, limit=30)
    for step in range(100, 130):
        cluster.say("n06", "rank.step", attempt=2, rank=0, about_run=True, step=step, grad_norm=900.0)
    cluster.until(lambda: cluster.execution().state == "succeeded", limit=30)
    assert "step: Compared with before: the gradient norm was 1.5 before the change and is 1.5 behind it." in (
        cluster.told()
    )


def test_a_training_that_obeys_no_switch_is_stopped_from_outside_and_stays_stopped(cluster):
    starting.start("stop-by-switch", cluster.run, "ana", cluster.now, {"why": "the grant is used up"})
    cluster.until(lambda: cluster.execution().state == "succeeded", limit=30)
    assert (cluster.fresh().state, len(cluster.stops)) == ("stopped", 1)
    cluster.tick(10)
    assert len(cluster.launches) == 1


def test_a_freeze_keeps_automation_from_taking_nodes_out_and_ends_by_itself(cluster):
    book = Book(cluster.now)
    for _ in range(2):
        quarantine.freeze("many nodes are gone", timedelta(minutes=5), by="one", now=cluster.now, book=book)
    book.write()
    with pytest.raises(Refused, match="takes no node out until"):
        quarantine.quarantine("n03", "slow", actor_kind="runbook", now=cluster.now)
    quarantine.quarantine("n03", "ana says so", actor_kind="person", actor="ana", now=cluster.now)
    later = cluster.now + timedelta(minutes=5)
    quarantine.quarantine("n02", "slow", actor_kind="runbook", now=later)
