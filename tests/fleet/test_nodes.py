from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection, transaction

from controlplane.domain.errors import Conflict, NotFound, Refused
from controlplane.domain.signals import Signal
from controlplane.events import log
from controlplane.fleet import actions, queries
from controlplane.fleet.models import Node
from tests.events import factories

NOW = datetime(2026, 11, 29, 2, 0, tzinfo=UTC)
HARDWARE = {"machine_id": "m1", "board_serial": "b1", "gpus": [{"uuid": "GPU-1"}]}
pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def node():
    return Node.objects.create(name="n01", state_since=NOW, enrolled_at=NOW)


def hello(incarnation="i1", hardware=HARDWARE, at=NOW, **data):
    signal = Signal(
        kind="node.hello", received=at.timestamp(), at_ms=1, node="n01", incarnation=incarnation,
        data={"hardware": hardware, "boot_id": "boot", "labels": {"rack": "r1"}, **data},
    )  # fmt: skip
    return actions.hello(signal, at)


def test_the_first_hello_makes_an_unknown_node_a_spare():
    hello()
    node = queries.node("n01")
    assert (node.state, node.state_reason, node.incarnation, node.boot_id) == ("spare", "said hello", "i1", "boot")
    assert (node.labels, node.hardware, node.last_seen_at) == ({"rack": "r1"}, HARDWARE, NOW)
    assert queries.spares() == [node]


def test_a_hello_changes_no_state_that_the_ledger_knows():
    Node.objects.update(state="quarantined")
    assert hello().state == "quarantined"


def test_a_launcher_is_a_head_and_never_a_spare():
    hello(capabilities=["launcher"])
    assert [node.name for node in queries.heads()] == ["n01"]
    assert queries.spares() == []


def test_a_lost_gpu_does_not_make_another_machine():
    hello()
    node = hello("i2", {**HARDWARE, "gpus": []}, NOW + timedelta(seconds=1))
    assert (node.incarnation, node.identity_conflict) == ("i2", False)


def test_another_machine_beside_a_living_one_is_flagged_and_not_taken_down():
    hello()
    Node.objects.update(last_seen_at=NOW + timedelta(seconds=20))
    node = hello("other", {"machine_id": "m2"}, NOW + timedelta(seconds=25))
    assert (node.incarnation, node.identity_conflict) == ("i1", True)
    assert queries.spares() == []


def test_another_machine_takes_the_place_of_a_silent_one():
    hello()
    node = hello("other", {"machine_id": "m2"}, NOW + timedelta(seconds=31))
    assert (node.incarnation, node.identity_conflict) == ("other", False)


def test_a_hello_follows_what_was_decided_when_it_was_stored():
    with transaction.atomic(), connection.cursor() as cursor:
        log.append(cursor, [factories.batch(factories.hello(1, machine_id="m1"), incarnation="a")], NOW)
        log.append(cursor, [factories.batch(factories.hello(1, machine_id="m2"), incarnation="b")], NOW)
    assert hello("a", {"machine_id": "m1"}).incarnation == "a"
    late = NOW + timedelta(minutes=5)
    assert hello("b", {"machine_id": "m2"}, late).identity_conflict


def test_a_name_is_in_dispute_until_the_other_machine_keeps_quiet():
    with transaction.atomic(), connection.cursor() as cursor:
        log.append(cursor, [factories.batch(factories.hello(1, machine_id="m1"), incarnation="a")], NOW)
        log.append(cursor, [factories.batch(factories.hello(1, machine_id="m2"), incarnation="b")], NOW)
    flags = []
    for minutes in (0, 4, 5):
        actions.seen(["n01"], NOW + timedelta(minutes=minutes))
        flags.append(queries.node("n01").identity_conflict)
    assert flags == [True, True, False]


def test_a_hello_of_nobody_we_know_is_ignored():
    Node.objects.all().delete()
    assert hello() is None


def test_when_a_node_was_seen_never_goes_back():
    actions.seen(["n01"], NOW)
    assert actions.seen(["n01"], NOW - timedelta(seconds=5)) == 0
    assert queries.node("n01").last_seen_at == NOW


def test_a_node_moves_only_from_the_state_that_was_seen():
    hello()
    moved = {"reason": "why", "actor_kind": "runbook", "now": NOW}
    assert actions.move_node("n01", expected="spare", to="quarantined", **moved).state == "quarantined"
    with pytest.raises(Conflict):
        actions.move_node("n01", expected="spare", to="healthy", **moved)
    with pytest.raises(Refused):
        actions.move_node("n01", expected="quarantined", to="suspect", **moved)
    with pytest.raises(NotFound):
        actions.move_node("n99", expected="spare", to="healthy", **moved)


def test_a_held_node_is_no_spare():
    hello()
    actions.hold_node("n01", held=True)
    assert queries.spares() == []
