from datetime import UTC, datetime

import pytest

from controlplane.domain.errors import Conflict, Invalid, Refused
from controlplane.fleet.models import Command, Node
from controlplane.runs import actions
from controlplane.runs.models import Attempt, Run

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 11, 29, 3, 0, tzinfo=UTC)


@pytest.fixture
def run():
    Node.objects.create(name="head", enrolled_at=NOW, state_since=NOW, head=True)
    return actions.create_run("demo", launcher="head", nodes_wanted=2, now=NOW)


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("name", {"name": "../etc"}),
        ("name", {"name": ""}),
        ("name", {"name": "x" * 81}),
        ("launcher", {"launcher": "two words"}),
        ("nodes_wanted", {"nodes_wanted": 0}),
        ("nodes_wanted", {"nodes_wanted": actions.MAX_NODES + 1}),
        ("gpus_per_node", {"gpus_per_node": actions.MAX_GPUS_PER_NODE + 1}),
        ("mode", {"mode": "yolo"}),
        ("hang_k", {"policy": {"hang_k": "fast"}}),
        ("no_such", {"policy": {"no_such": 1}}),
    ],
)
def test_a_wrong_field_of_a_new_run_is_named(field, wrong):
    with pytest.raises(Invalid) as refusal:
        actions.create_run(**{"name": "demo", "launcher": "head", "nodes_wanted": 2, "now": NOW} | wrong)
    assert refusal.value.field == field
    assert not Run.objects.exists()


def test_a_name_is_given_once(run):
    with pytest.raises(Conflict):
        actions.create_run("demo", launcher="head", nodes_wanted=2, now=NOW)


def test_a_hold_is_set_and_lifted_once(run):
    actions.hold(run, "ana", NOW)
    with pytest.raises(Conflict):
        actions.hold(run, "ben", NOW)
    assert Run.objects.get().held_by == "ana"
    with pytest.raises(Refused):
        actions.launchable(run)
    actions.resume(run, "ben", NOW)
    with pytest.raises(Conflict):
        actions.resume(run, "ben", NOW)


def test_a_second_attempt_waits_for_the_end_of_the_first(run):
    first = actions.open_attempt(run, ["n1", "n2"], actions.Resume(), NOW)
    with pytest.raises(Conflict):
        actions.open_attempt(run, ["n1", "n2"], actions.Resume(), NOW)
    assert actions.close_attempt(first, "failed", NOW)
    assert not actions.close_attempt(first, "killed", NOW)
    assert actions.open_attempt(run, ["n1", "n2"], actions.Resume(7, "/x"), NOW).number == 2


def test_stopping_a_run_marks_its_attempt_as_ours_and_tells_the_launcher_once(run):
    actions.open_attempt(run, ["n1", "n2"], actions.Resume(), NOW)
    actions.stop(run, "ana", NOW)
    assert Attempt.objects.get().stopping_at == NOW
    assert Command.objects.get().kind == "attempt.stop"
    with pytest.raises(Conflict):
        actions.stop(run, "ana", NOW)


def test_the_mode_and_the_policy_are_checked(run):
    actions.set_mode(run, "ask", "ana", NOW)
    actions.set_policy(run, {"hang_k": 4}, "ana", NOW)
    assert (Run.objects.get().mode, Run.objects.get().policy) == ("ask", {"hang_k": 4})
    with pytest.raises(Invalid):
        actions.set_mode(run, "fast", "ana", NOW)
    with pytest.raises(Invalid):
        actions.set_policy(run, {"hang_k": -1}, "ana", NOW)
