"""What people do to executions: approve with open eyes, stop, and take back."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from controlplane.access import links
from controlplane.chronicle.queries import entries
from controlplane.domain.errors import Conflict, NotFound, Refused
from controlplane.incidents.models import ActRecord
from controlplane.quarantine import actions as quarantine
from controlplane.runbooks import actions, approvals, engine, grounds, left_out, preview, registry, starting, switches
from controlplane.runbooks.models import Approval, Execution
from controlplane.runbooks.outcomes import Failed
from controlplane.runs import leases
from controlplane.runs import queries as runs
from tests.flows.conftest import trained, training
from tests.flows.world import Cluster
from tests.runbooks.test_answers import tell

pytestmark = pytest.mark.django_db
MINUTE = timedelta(minutes=1)


def proposed(mode="ask", size=2, spares=1, **policy):
    cluster = Cluster(size=size, spares=spares, mode=mode)
    cluster.policy |= policy
    trained(cluster.build(), steps=6)
    cluster.kill_rank(1)
    cluster.until(lambda: cluster.execution() is not None and cluster.execution().state == "proposed")
    return cluster


def newest():
    return Approval.objects.latest("pk")


def test_a_question_names_nodes_and_steps_and_its_answer_starts_the_runbook():
    cluster = proposed()
    asked = newest()
    assert (asked.purpose, asked.state, asked.persons, asked.until - asked.asked_at) == (
        "start", "open", 1, 15 * MINUTE,
    )  # fmt: skip
    assert "stop attempt 1 on n01, n02" in asked.will
    assert any(told.startswith("launch attempt 2") and told.endswith("from step 5") for told in asked.will)
    actions.approve(cluster.execution(), "ben", cluster.now, number=asked.pk)
    assert [item["who"] for item in newest().answers] == ["ben"]
    assert (newest().state, cluster.execution().state, cluster.execution().approved_by) == (
        "approved",
        "running",
        "ben",
    )


def test_a_preview_names_the_nodes_that_have_to_speak_first_and_calls_none_of_them_doubtful():
    cluster = Cluster(size=2, spares=1, mode="ask")
    trained(cluster.build(), steps=6)
    cluster.kill_rank(1)
    cluster.alive.discard("n01")
    cluster.until(lambda: cluster.execution() is not None and cluster.execution().state == "proposed")
    assert "launch on n01, n02, once n01 has spoken since the trouble began" in newest().will


def test_a_preview_writes_nothing_and_a_run_that_is_watched_has_one_too():
    cluster = proposed(mode="watch")
    before = Execution.objects.values().get()
    assert preview.of(cluster.execution(), cluster.now) == newest().will
    assert Execution.objects.values().get() == before
    with pytest.raises(Refused):
        actions.approve(cluster.execution(), "ben", cluster.now)


def test_nobodys_answer_does_nothing_but_call_a_person_once_and_may_still_come_later():
    cluster = proposed()
    assert approvals.lapse(cluster.now) == 0
    late = cluster.now + 16 * MINUTE
    assert (approvals.lapse(late), approvals.lapse(late)) == (1, 0)
    assert [row.why for row in ActRecord.objects.filter(do="page", key__contains="lapsed")] == [
        "nobody answered within 16 min whether “Restart after a crash” may go on, so nothing was done"
    ]
    assert (newest().state, cluster.execution().state) == ("lapsed", "proposed")
    actions.approve(cluster.execution(), "ben", late)
    assert list(Approval.objects.values_list("state", flat=True)) == ["lapsed", "approved"]


def test_a_yes_to_what_has_changed_since_starts_nothing_and_is_asked_anew():
    cluster = proposed()
    first = newest()
    quarantine.move("n02", "suspect", "looks odd", actor_kind="person", actor="ana", now=cluster.now)
    with pytest.raises(Conflict, match="node n02 is suspect by now, it was healthy"):
        actions.approve(cluster.execution(), "ben", cluster.now, number=first.pk)
    assert list(Approval.objects.values_list("state", flat=True)) == ["stale", "open"]
    assert cluster.execution().state == "proposed"
    with pytest.raises(Conflict, match="has changed meanwhile"):
        actions.approve(cluster.execution(), "ben", cluster.now, number=first.pk)
    actions.approve(cluster.execution(), "ben", cluster.now, number=newest().pk)
    assert cluster.execution().state == "running"


def test_a_yes_after_the_trouble_is_over_takes_the_proposal_back():
    cluster = proposed()
    cluster.incident().findings.update(stage="cleared", cleared_at=cluster.now)
    with pytest.raises(Conflict, match="nothing was started"):
        actions.approve(cluster.execution(), "ben", cluster.now)
    assert (newest().state, cluster.execution().state) == ("withdrawn", "stopped")


def test_what_leaves_out_a_large_share_of_the_fleet_needs_two_different_people(monkeypatch):
    monkeypatch.setattr(left_out, "excluded", lambda *_, **__: ("n01", "n02"))
    cluster = proposed()
    assert newest().persons == 2
    execution = cluster.execution()
    with pytest.raises(Refused, match="only a person"):
        approvals.approve(execution, "restart-after-crash", cluster.now, actor_kind="runbook")
    actions.approve(execution, "ana", cluster.now)
    with pytest.raises(Refused, match="second person"):
        actions.approve(execution, "ana", cluster.now)
    assert (newest().state, execution.state) == ("open", "proposed")
    actions.approve(execution, "ben", cluster.now)
    assert (execution.state, execution.approved_by) == ("running", "ana and ben")


def test_neighbours_and_a_slow_node_count_for_the_question_as_for_the_launch(monkeypatch):
    cluster = training(steps=6, size=2, spares=1, mode="ask")
    tell(cluster, "gpu_fault", weight=6.0, action="quarantine_now")
    cluster.until(lambda: cluster.execution() is not None)
    execution = cluster.execution()
    assert grounds.of(execution, cluster.now)["exclude"] == ["n02"]
    execution.context["rung"] = "replace domain"
    monkeypatch.setattr(left_out, "neighbours", lambda *_: ("n01",))
    assert approvals.ask(execution, "the ladder", cluster.now).persons == 2
    assert newest().world["exclude"] == ["n01", "n02"]


def test_what_grew_past_those_who_agreed_is_asked_again_before_nodes_are_left_out(monkeypatch):
    cluster = proposed()
    actions.approve(cluster.execution(), "ana", cluster.now)
    monkeypatch.setattr(left_out, "excluded", lambda *_, **__: ("n01", "n02"))
    cluster.until(lambda: cluster.execution().state == "proposed", limit=30)
    assert (newest().step, newest().persons) == ("choose_nodes", 2)
    assert "n01, n02 would be left out, a large share of the fleet" in newest().why
    actions.approve(cluster.execution(), "ana", cluster.now)
    assert cluster.execution().state == "proposed"
    actions.approve(cluster.execution(), "ben", cluster.now)
    cluster.tick(3)
    assert cluster.execution().state == "waiting"


def test_links_to_a_question_die_when_it_is_settled():
    cluster = proposed()
    subject = f"approval:{newest().pk}"
    token = links.make("approve", subject, now=cluster.now, life=MINUTE).rstrip("/").rsplit("/", 1)[1]
    assert links.look(token, cluster.now).number == newest().pk
    actions.reject(cluster.execution(), "ben", cluster.now, "not now", number=newest().pk)
    assert (newest().state, newest().answers[0]["why"]) == ("rejected", "not now")
    with pytest.raises(NotFound):
        links.take(token, cluster.now)


def recovering():
    cluster = training(steps=6, size=2, spares=1)
    tell(cluster, "gpu_fault", weight=6.0, action="quarantine_now")
    return cluster


def test_stop_after_ends_an_execution_behind_the_step_under_way():
    cluster = recovering()
    cluster.mute_kinds.add("attempt.stop")
    cluster.until(lambda: cluster.sent("attempt.stop").exists())
    actions.stop_after(cluster.execution(), "ana", cluster.now)
    with pytest.raises(Conflict, match="ana asked for that before"):
        actions.stop_after(cluster.execution(), "ben", cluster.now)
    assert cluster.execution().state == "waiting"
    cluster.mute_kinds.clear()
    cluster.until(lambda: cluster.execution().state == "stopped", limit=60)
    assert list(cluster.execution().steps.values_list("name", "state"))[-1] == ("stop", "done")
    cluster.tick(3)
    assert (len(cluster.launches), cluster.run.executions.count()) == (1, 1)


def test_undo_gives_back_what_nobody_has_moved_since_and_says_what_stays():
    cluster = recovering()
    cluster.until(lambda: len(cluster.launches) == 2, limit=30)
    execution = cluster.execution()
    assert cluster.node("n02").state == "quarantined"
    actions.undo(execution, "ana", cluster.now)
    assert execution.state == "undoing"
    cluster.until(lambda: cluster.execution().state == "undone", limit=10)
    assert cluster.node("n02").state == "spare"
    assert ("confirm", "undone") in list(cluster.execution().steps.filter(undo=True).values_list("name", "state"))
    assert any("took back" in line for line in cluster.told())
    cluster.tick(3)
    assert cluster.run.executions.count() == 1
    with pytest.raises(Conflict):
        actions.undo(cluster.execution(), "ana", cluster.now)


def test_giving_back_a_large_share_of_the_fleet_needs_a_second_person_and_a_fresh_word_when_that_changes(monkeypatch):
    cluster = recovering()
    cluster.until(lambda: len(cluster.launches) == 2, limit=30)
    monkeypatch.setattr(left_out, "may_be_one_persons", lambda nodes, *_: nodes < 1)
    execution = cluster.execution()
    before = execution.state
    actions.undo(execution, "ana", cluster.now)
    asked = newest()
    assert (cluster.execution().state, asked.purpose, asked.persons) == (before, "undo", 2)
    assert asked.will == ["give back n02"]
    assert any("ana wants to take back" in line and "gives back 1 node;" in line for line in cluster.told())
    with pytest.raises(Refused, match="second person"):
        actions.undo(execution, "ana", cluster.now)
    actions.reject(execution, "ben", cluster.now, "look first", number=asked.pk)
    assert (newest().state, cluster.execution().state) == ("rejected", before)
    actions.undo(execution, "ana", cluster.now)
    approvals.lapse(cluster.now + timedelta(hours=1))
    assert newest().state == "lapsed"
    actions.undo(execution, "ana", cluster.now)
    Approval.objects.filter(state="open").update(world={"nodes": ["n01", "n02"]})
    actions.undo(execution, "ben", cluster.now)
    assert (cluster.execution().state, [said["who"] for said in newest().answers]) == (before, ["ben"])
    actions.approve(execution, "ana", cluster.now, number=newest().pk)
    assert (cluster.execution().state, cluster.execution().undo_by) == ("undoing", "ben and ana")
    cluster.until(lambda: cluster.execution().state == "undone", limit=10)
    assert cluster.node("n02").state == "spare"


def test_undo_leaves_a_node_that_a_person_moved_since():
    cluster = recovering()
    cluster.until(lambda: len(cluster.launches) == 2, limit=30)
    quarantine.release("n02", "repairing", by="ben", now=cluster.now)
    actions.undo(cluster.execution(), "ana", cluster.now)
    cluster.until(lambda: cluster.execution().state == "undone", limit=10)
    assert cluster.node("n02").state == "repairing"
    assert any("n02 stays repairing, since it was moved meanwhile" in line for line in cluster.told())


def test_taking_back_stands_still_while_automation_is_off_and_a_person_can_stop_it():
    cluster = recovering()
    cluster.until(lambda: len(cluster.launches) == 2, limit=30)
    switches.off(None, "ben", "", cluster.now)
    actions.undo(cluster.execution(), "ana", cluster.now)
    cluster.tick(5)
    assert (cluster.execution().state, cluster.execution().held_by) == ("undoing", "kill switch")
    assert cluster.node("n02").state == "quarantined"
    actions.stop(cluster.execution(), "ben", cluster.now)
    switches.on(None, "ben", cluster.now)
    cluster.tick(5)
    assert (cluster.execution().state, cluster.node("n02").state) == ("stopped", "quarantined")


def test_what_could_not_be_taken_back_is_named(monkeypatch):
    cluster = recovering()
    cluster.until(lambda: len(cluster.launches) == 2, limit=30)
    monkeypatch.setattr(registry.step("give_back"), "look", lambda _: Failed("the ledger is away"), raising=False)
    actions.undo(cluster.execution(), "ana", cluster.now)
    cluster.until(lambda: cluster.execution().state == "undone", limit=60)
    assert cluster.execution().outcome.startswith("ana took back what it did, except for: ")
    assert "confirm" in cluster.execution().outcome


@pytest.mark.parametrize("word", ["approve", "undo"])
def test_whoever_lets_an_execution_work_locks_its_run_before_looking_for_another(word):
    cluster = proposed() if word == "approve" else recovering()
    if word == "undo":
        cluster.until(lambda: len(cluster.launches) == 2, limit=30)
    with CaptureQueriesContext(connection) as seen:
        getattr(actions, word)(cluster.execution(), "ana", cluster.now)
    asked = [item["sql"] for item in seen.captured_queries]
    locks = [place for place, sql in enumerate(asked) if 'FROM "runs_run"' in sql and "FOR NO KEY UPDATE" in sql]
    looks = [place for place, sql in enumerate(asked) if "beside" in sql]
    assert locks[0] < looks[0]


def test_what_no_version_reads_any_more_ends_with_a_call_and_people_can_end_it_too():
    cluster = recovering()
    cluster.mute_kinds.add("attempt.stop")
    cluster.until(lambda: cluster.sent("attempt.stop").exists())
    first = cluster.execution()
    Execution.objects.update(digest="gone")
    cluster.tick()
    first.refresh_from_db()
    assert (first.state, first.outcome) == ("failed", "its kept definition cannot be used by this version")
    assert ActRecord.objects.filter(do="page", why__contains="ended unfinished: its kept definition").exists()
    second = cluster.execution()
    assert second.pk != first.pk
    actions.pause(second, "ana", cluster.now)
    Execution.objects.filter(pk=second.pk).update(digest="gone")
    cluster.tick()
    actions.stop(second, "ana", cluster.now)
    assert second.state == "stopped"


def test_what_did_nothing_cannot_be_undone():
    cluster = proposed()
    with pytest.raises(Refused, match="nothing that it did"):
        actions.undo(cluster.execution(), "ana", cluster.now)


def test_a_fault_behind_a_paused_runbook_calls_a_person_and_is_answered_once_that_is_stopped():
    cluster = Cluster(size=2, spares=2)
    trained(cluster.build(), steps=6)
    planned = starting.start("planned-change", cluster.run, "ana", cluster.now, {"what": "a new driver"})
    actions.pause(planned, "ana", cluster.now)
    cluster.kill_rank(1)
    cluster.until(lambda: ActRecord.objects.filter(do="page").exists(), limit=30)
    why = f"“Planned change” has the run for incident {planned.incident_id} and is paused"
    assert ActRecord.objects.get(do="page").why.endswith(why)
    crash = cluster.run.incidents.get(klass="crash")
    told = [entry.sentence for entry in entries(f"incident:{crash.pk}")]
    assert f"Chose “Restart after a crash” but did not start it: {why}." in told
    assert len(cluster.launches) == 1
    actions.stop(planned, "ana", cluster.now)
    cluster.until(lambda: len(cluster.launches) == 2, limit=30)


def test_a_new_fault_during_an_execution_is_answered_when_it_closes():
    cluster = Cluster(size=2, spares=2)
    cluster.policy["backoff_s"] = 0.0
    trained(cluster.build(), steps=6)
    cluster.kill_rank(1)
    cluster.until(lambda: len(cluster.launches) == 2, limit=30)
    first = cluster.execution()
    tell(cluster, "fail_slow", severity="warning", weight=4.5, node="n01")
    cluster.until(lambda: cluster.run.executions.count() == 2, limit=60)
    first.refresh_from_db()
    second = cluster.execution()
    assert (first.state, second.runbook) == ("succeeded", "drain-at-save")
    assert second.created_at - first.finished_at <= timedelta(seconds=2)


def test_how_long_a_question_stands_is_a_setting_of_the_run():
    cluster = proposed(approval_s=60.0)
    assert newest().until - newest().asked_at == MINUTE
    assert runs.policy(cluster.run).two_person_share == 0.25


def test_a_step_that_only_looks_costs_few_queries(django_assert_max_num_queries):
    cluster = training(steps=6, size=2, spares=1)
    tell(cluster, "fail_slow", severity="warning", weight=4.5)
    cluster.until(lambda: cluster.execution() is not None)
    with django_assert_max_num_queries(30):
        engine.advance(cluster.execution().pk, "me", cluster.now)


def test_a_transition_renews_the_lease_by_what_has_passed_since_it_was_taken(monkeypatch):
    cluster = recovering()
    cluster.until(lambda: cluster.execution() is not None)
    execution = cluster.execution()
    Execution.objects.filter(pk=execution.pk).update(owner="")
    lease = leases.take(Execution.objects.filter(pk=execution.pk), "me", cluster.now, 1.5)
    monkeypatch.setattr(leases, "monotonic", lambda: lease.since + 4.0)
    assert lease.renewed() == cluster.now + timedelta(seconds=5.5)
