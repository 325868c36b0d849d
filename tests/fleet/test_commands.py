from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from django.db import connection

from controlplane.domain.errors import Invalid, NotFound
from controlplane.fleet import actions, pruning, queries
from controlplane.fleet.commands import HANDED_OUT_AT_ONCE, LEASE, WAITING
from controlplane.fleet.models import OPEN, Command, CommandState, Node

NOW = datetime(2026, 11, 29, 2, 0, tzinfo=UTC)
ARGS = {"run": "demo", "attempt": 2, "grace_s": 2.0}
pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def node():
    return Node.objects.create(name="head", state_since=NOW, enrolled_at=NOW)


def send(key="k", now=NOW, **more):
    return actions.send_command(
        "head", "attempt.stop", ARGS, key=key, deadline=now + timedelta(minutes=5), now=now, **more
    )


def leased(now):
    return actions.lease_commands(["head"], now).get("head", [])


def test_the_same_key_sends_one_command():
    assert send().pk == send(now=NOW + timedelta(seconds=9)).pk
    assert Command.objects.count() == 1


def test_a_command_to_nobody_or_of_no_kind_is_refused():
    with pytest.raises(NotFound):
        actions.send_command("nowhere", "attempt.stop", ARGS, key="k", deadline=NOW, now=NOW)
    with pytest.raises(Invalid) as error:
        actions.send_command("head", "shell", {"run": "rm"}, key="k", deadline=NOW, now=NOW)
    assert error.value.field == "kind"


def test_arguments_that_no_agent_knows_are_refused():
    for args in ({**ARGS, "path": "/etc"}, {**ARGS, "attempt": "two"}, {"run": "demo"}):
        with pytest.raises(Invalid):
            actions.send_command("head", "attempt.stop", args, key="k", deadline=NOW, now=NOW)


def test_commands_are_handed_out_oldest_first_and_a_bounded_number_at_once():
    for n in range(HANDED_OUT_AT_ONCE + 1):
        send(key=f"k{n}", now=NOW + timedelta(seconds=n))
    later = NOW + timedelta(seconds=60)
    first = [command.idempotency_key for command in leased(later)]
    assert first == [f"k{n}" for n in range(HANDED_OUT_AT_ONCE)]
    assert [command.idempotency_key for command in leased(later)] == ["k10"]


def test_nodes_that_are_asked_at_once_each_get_their_own_oldest_commands():
    Node.objects.create(name="n01", state_since=NOW, enrolled_at=NOW)
    Node.objects.create(name="n02", state_since=NOW, enrolled_at=NOW)
    for n in range(HANDED_OUT_AT_ONCE + 1):
        send(key=f"k{n}", now=NOW + timedelta(seconds=n))
    deadline = NOW + timedelta(minutes=5)
    only = actions.send_command("n01", "attempt.stop", ARGS, key="only", deadline=deadline, now=NOW)
    found = actions.lease_commands({"head", "n01", "n02"}, NOW + timedelta(seconds=60))
    assert [command.idempotency_key for command in found["head"]] == [f"k{n}" for n in range(HANDED_OUT_AT_ONCE)]
    assert [(command.pk, command.state, command.lease_count) for command in found["n01"]] == [(only.pk, "leased", 1)]
    assert set(found) == {"head", "n01"}


def test_a_report_that_it_runs_renews_the_lease():
    command = send()
    leased(NOW)
    actions.record_result(command.pk, {"state": "running"}, NOW + LEASE / 2)
    assert leased(NOW + LEASE) == []
    assert len(leased(NOW + 2 * LEASE)) == 1


def test_a_final_report_is_never_changed_again():
    command = send(execution_id=7)
    done = actions.record_result(str(command.pk), {"state": "succeeded", "data": {"stopped": True}}, NOW)
    actions.record_result(str(command.pk), {"state": "failed"}, NOW)
    kept = queries.command(command.pk)
    assert (kept.state, kept.result["data"], kept.finished_at) == (CommandState.SUCCEEDED, {"stopped": True}, NOW)
    assert done.execution_id == 7
    assert leased(NOW + LEASE) == []


def test_a_report_from_another_node_or_on_nothing_is_refused():
    command = send()
    for command_id, node in ((command.pk, "n02"), (uuid4(), "head"), ("nonsense", "head")):
        with pytest.raises(NotFound):
            actions.record_result(command_id, {"state": "succeeded"}, NOW, node=node)
    with pytest.raises(Invalid):
        actions.record_result(command.pk, {"state": "great"}, NOW)


def test_a_command_expires_once_deadline_and_lease_are_over():
    command = send()
    leased(NOW + timedelta(minutes=5) - LEASE / 2)
    assert actions.expire_commands(NOW + timedelta(minutes=5)) == []
    expired = actions.expire_commands(NOW + timedelta(minutes=5) + LEASE)
    assert [(gone.pk, gone.state) for gone in expired] == [(command.pk, CommandState.EXPIRED)]


def test_late_news_about_an_expired_command_is_kept():
    command = send()
    actions.expire_commands(NOW + timedelta(minutes=6))
    later = NOW + timedelta(minutes=7)
    assert actions.record_result(command.pk, {"state": "running"}, later).state == CommandState.EXPIRED
    assert actions.record_result(command.pk, {"state": "succeeded"}, later).state == CommandState.SUCCEEDED


def test_commands_that_are_called_back_are_not_handed_out_and_others_are():
    mine = send(key="mine", execution_id=7)
    other = send(key="other", execution_id=8)
    assert actions.recall_commands(NOW, execution_id=7) == 1
    assert [command.pk for command in leased(NOW)] == [other.pk]
    mine.refresh_from_db()
    assert mine.state == "expired"


def test_a_run_s_commands_are_called_back_but_not_those_of_people():
    send(key="automation", execution_id=7)
    person = send(key="person")
    assert actions.recall_commands(NOW, run="demo") == 1
    assert actions.recall_commands(NOW, run="other") == 0
    assert [command.pk for command in leased(NOW)] == [person.pk]


def test_what_is_about_a_run_is_called_back_though_it_does_not_name_it_or_no_runbook_sent_it():
    within = {"deadline": NOW + timedelta(minutes=5), "now": NOW}
    drain = {"nodes": ["n03"], "reason": "a rank may live"}
    actions.send_command("head", "nodes.drain", drain, key="fence", execution_id=7, **within)
    actions.send_command("head", "ranks.stop", {"run": "demo", "attempt": 1, "grace_s": 5.0}, key="proof", **within)
    other = actions.send_command("head", "nodes.drain", drain, key="other", execution_id=8, **within)
    assert actions.recall_commands(NOW, run="demo", executions=[7]) == 2
    assert [command.pk for command in leased(NOW)] == [other.pk]


def test_ended_commands_are_forgotten_after_their_time_but_not_those_of_executions_that_go_on():
    for number, more in enumerate(({}, {"execution_id": 7}, {"execution_id": 8})):
        actions.record_result(send(f"ended {number}", **more).pk, {"state": "succeeded"}, NOW, node="head")
    held = actions.send_command("head", "job.hold", {"run": "demo"}, key="h", deadline=NOW, now=NOW)
    actions.record_result(held.pk, {"state": "succeeded"}, NOW, node="head")
    vain = actions.send_command("head", "job.release", {"run": "demo"}, key="i", deadline=NOW, now=NOW)
    actions.record_result(vain.pk, {"state": "failed"}, NOW, node="head")
    send("open")
    keep = timedelta(days=90)
    assert pruning.prune(NOW + keep, keep, living=[7]) == 0
    assert pruning.prune(NOW + keep + timedelta(seconds=1), keep, living=[7]) == 3
    assert sorted(Command.objects.values_list("idempotency_key", flat=True)) == ["ended 1", "h", "open"]


def test_what_is_open_is_found_without_reading_the_commands_of_years(node):
    ended = {"node": node, "kind": "job.hold", "args": {}, "created_at": NOW, "deadline": NOW, "state": "expired"}
    Command.objects.bulk_create(Command(idempotency_key=f"old {number}", **ended) for number in range(3_000))
    overdue = Command.objects.filter(state__in=OPEN, deadline__lte=NOW).query.sql_with_params()
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE fleet_command")
        for query, given in (overdue, (WAITING, ())):
            cursor.execute(f"EXPLAIN {query}", given)
            assert "command_open" in str(cursor.fetchall())
