import pytest

from controlplane.chronicle import queries as told

pytestmark = pytest.mark.django_db


def test_every_guard_is_shown_for_the_fleet_and_for_a_run(api, run):
    fleet, of_run = api.get("guards").json(), api.get("guards", run="demo").json()
    assert fleet["automation"]["words"] == "automation may act."
    assert [item["name"] for item in fleet["budgets"]][:3] == ["Kill switch", "Breaker of the fleet", "Nodes taken out"]
    assert {"Restarts", "Ladder", "Breaker"} <= {item["name"] for item in of_run["budgets"]}
    assert all(item["open"] for item in of_run["budgets"])
    assert api.get("guards", run="nobody").status_code == 404


def test_a_responder_stops_automation_and_an_operator_lets_it_act_again(asking_as, run):
    responder, operator = asking_as("responder"), asking_as("operator")
    off = responder.post("guards/off", run="demo", why="odd storage").json()["automation"]
    assert (off["off"], off["by"], off["everywhere"]) == (True, "the-responder", False)
    assert responder.post("guards/off", run="demo").status_code == 409
    assert responder.post("guards/on", run="demo").status_code == 403
    assert operator.post("guards/on", run="demo", backlog="forget").status_code == 400
    assert operator.post("guards/on", run="demo", backlog="skip").json()["automation"]["off"] is False
    assert [entry.actor for entry in told.entries("run:demo")] == ["the-responder", "the-operator"]


def test_a_breaker_that_is_closed_cannot_be_reset(api, run):
    assert api.post("guards/reset", run="demo").status_code == 409


def test_a_runbook_is_held_below_the_run(api, run):
    answer = api.post("guards/modes/restart-after-crash", run="demo", mode="ask")
    assert answer.status_code == 200, answer.json()
    sentences = api.get("guards/preview/demo").json()["sentences"]
    assert "R-01 Restart after a crash: stays on ask, so a person decides." in sentences
    assert api.post("guards/modes/restart-after-crash", mode="yolo").json()["field"] == "mode"
