from datetime import timedelta

import pytest

from controlplane.checkpoints.models import Checkpoint
from controlplane.chronicle import queries as told
from controlplane.fleet.models import Node
from controlplane.runs.models import Attempt, AttemptState, Run
from tests.api.conftest import NOW


def test_a_run_is_created_and_waits(api):
    answer = api.post("runs", name="demo", launcher="head", nodes_wanted=4, policy={"hang_k": 4.0})
    assert answer.status_code == 201
    shown = api.get("runs/demo").json()
    assert shown == answer.json()
    assert (shown["state"], shown["attempt"], shown["policy"]) == ("waiting", None, {"hang_k": 4.0})
    assert "the-admin" in [entry.actor for entry in told.entries("run:demo")]


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"nodes_wanted": 0}, "nodes_wanted"),
        ({"nodes_wanted": "four"}, "nodes_wanted"),
        ({"mode": "yolo"}, "mode"),
        ({"name": "a/b"}, "name"),
        ({"policy": {"hang_k": -1}}, "hang_k"),
    ],
)
def test_a_run_that_makes_no_sense_is_refused_by_field(api, wrong, field):
    answer = api.post("runs", **{"name": "demo", "launcher": "head", "nodes_wanted": 4} | wrong)
    assert answer.status_code == 400
    assert field in answer.json()["field"]
    assert not Run.objects.exists()


def test_a_name_is_taken_once(api, run):
    answer = api.post("runs", name="demo", launcher="head", nodes_wanted=4)
    assert (answer.status_code, answer.json()["code"]) == (409, "conflict")


def test_a_run_names_its_newest_attempt(api, run, attempt):
    Attempt.objects.create(run=run, number=2, started_at=NOW)
    assert api.get("runs/demo").json()["attempt"] == 2
    assert [item["number"] for item in api.get("runs/demo/attempts").json()["items"]] == [2, 1]


def test_a_hold_is_put_and_lifted_in_the_name_of_the_person(api, run):
    assert api.post("runs/demo/hold").json()["held_by"] == "the-admin"
    assert api.post("runs/demo/hold").status_code == 409
    assert api.post("runs/demo/resume").json()["held"] is False
    assert [entry.actor for entry in told.entries("run:demo")] == ["the-admin", "the-admin"]


def test_a_run_is_stopped_once(api, run):
    assert api.post("runs/demo/stop").json()["state"] == "stopped"
    assert api.post("runs/demo/stop").status_code == 409


def test_a_mode_is_set(api, run):
    assert api.post("runs/demo/mode", mode="ask").json()["mode"] == "ask"
    assert api.post("runs/demo/mode", mode="yolo").json()["field"] == "mode"


def test_a_launch_opens_an_attempt_on_the_nodes_named(api, run, node):
    Run.objects.update(state="waiting")
    node("head", head=True)
    for name in ("n01", "n02"):
        node(name, last_seen_at=NOW + timedelta(days=10_000))
    answer = api.post("runs/demo/launch", nodes=["n01", "n02"])
    assert answer.status_code == 200, answer.json()
    assert answer.json()["attempt"] == 1
    assert run.attempts.get().nodes == ["n01", "n02"]


def test_a_run_with_a_living_attempt_is_not_launched_again(api, attempt):
    assert api.post("runs/demo/launch").status_code == 409
    assert Attempt.objects.exclude(state=AttemptState.EXITED).count() == 1


def test_lists_go_on_where_the_page_ended(api):
    for number in range(5):
        Run.objects.create(name=f"run-{number}", launcher="head", nodes_wanted=1, created_at=NOW)
    names, after = [], {}
    for _ in range(3):
        page = api.get("runs", limit=2, **after).json()
        names += [item["name"] for item in page["items"]]
        after = {"after": page["next"]}
    assert names == [f"run-{number}" for number in range(5)]
    assert page["next"] is None


@pytest.mark.parametrize("limit", [0, 201, "many"])
def test_a_page_has_a_bounded_size(api, limit):
    answer = api.get("runs", limit=limit)
    assert (answer.status_code, answer.json()["field"]) == (400, "limit")


def test_checkpoints_are_listed_latest_first(api, run):
    for step in (100, 200, 300):
        Checkpoint.objects.create(run=run, step=step, path=f"/data/step-{step}", state="complete")
    page = api.get("runs/demo/checkpoints", limit=2).json()
    assert [item["step"] for item in page["items"]] == [300, 200]
    assert [item["step"] for item in api.get("runs/demo/checkpoints", after=page["next"]).json()["items"]] == [100]


def test_a_window_of_goodput_needs_a_time_zone_and_lies_in_the_past(api, run):
    assert api.get("runs/demo/goodput", since="2026-11-29T02:00:00").json()["field"] == "since"
    account = api.get("runs/demo/goodput", since="2999-01-01T00:00:00Z").json()
    assert account["begin"] == account["end"]
    assert account["elapsed_ms"] == 0


def test_a_training_can_be_asked_for_a_checkpoint(asking_as, attempt):
    Node.objects.create(name="n01", enrolled_at=NOW, state_since=NOW)
    assert asking_as("viewer").post("runs/demo/save-now").status_code == 403
    responder = asking_as("responder")
    refused = responder.post("runs/demo/save-now")
    assert refused.status_code == 409
    assert "training supports save_now" in refused.json()["message"]
    Attempt.objects.update(supports=["save_now"])
    sent = responder.post("runs/demo/save-now")
    assert sent.status_code == 202
    assert (sent.json()["kind"], sent.json()["node"], sent.json()["state"]) == ("switch.arm", "n01", "pending")
