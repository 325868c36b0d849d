from datetime import datetime

import pytest

from controlplane.chronicle import queries as told
from controlplane.fleet.actions import enrol, record_result
from controlplane.fleet.models import EnrolmentToken
from tests.api.conftest import NOW


def test_nodes_are_listed_by_name_and_state(api, node):
    node("n02", "spare")
    node("n01")
    names = lambda **query: [item["name"] for item in api.get("nodes", **query).json()["items"]]  # noqa: E731
    assert names() == ["n01", "n02"]
    assert names(state="spare") == ["n02"]
    assert names(after="n01") == ["n02"]


def test_a_node_goes_into_quarantine_and_comes_back_with_reasons(api, node):
    node()
    assert api.post("nodes/n01/quarantine", reason="fan 3 is loud").json()["state"] == "quarantined"
    assert api.post("nodes/n01/release", reason="fan replaced").json()["state"] == "spare"
    moves = api.get("nodes/n01/ledger").json()["items"]
    assert [(move["from_state"], move["to_state"], move["actor"]) for move in moves] == [
        ("quarantined", "spare", "the-admin"),
        ("healthy", "quarantined", "the-admin"),
    ]
    assert "fan 3 is loud" in moves[1]["reason"]


def test_a_node_can_be_asked_for_a_bundle_and_a_check_and_the_outcome_is_read(api, node):
    node()
    sent = api.post("nodes/n01/support-bundle", run="demo", attempt=2)
    assert (sent.status_code, sent.json()["args"]) == (202, {"run": "demo", "attempt": 2})
    assert api.post("nodes/n01/check", check="memory").status_code == 202
    answer = {"state": "refused", "output_tail": "agent.toml of this node names no check 'memory'; it knows none"}
    record_result(api.get("nodes/n01/commands").json()[0]["id"], answer, NOW)
    newest, before = api.get("nodes/n01/commands").json()
    assert (newest["kind"], newest["state"], newest["result"]) == ("check.run", "refused", answer)
    assert (before["kind"], before["state"]) == ("support.bundle", "pending")
    said = [entry.sentence for entry in told.entries("fleet")]
    assert said[-1] == "the-admin asked node n01 to run the check memory."


@pytest.mark.parametrize(("body", "field"), [({}, "check"), ({"check": "x", "budget_s": 0}, "budget_s")])
def test_a_check_needs_a_name_and_a_time(api, node, body, field):
    node()
    assert api.post("nodes/n01/check", **body).json()["field"] == field


def test_a_quarantine_needs_a_reason(api, node):
    node()
    for body in ({}, {"reason": ""}, {"reason": "x" * 2001}):
        assert api.post("nodes/n01/quarantine", **body).json()["field"] == "reason"
    assert api.get("nodes/n01").json()["state"] == "healthy"


def test_a_node_that_is_not_in_quarantine_is_not_released(api, node):
    node()
    assert api.post("nodes/n01/release").status_code == 409


def test_a_hold_is_put_on_a_node_and_lifted_and_told(api, node):
    node()
    assert api.post("nodes/n01/hold").json()["held"] is True
    assert api.post("nodes/n01/resume").json()["held"] is False
    assert [(entry.kind, entry.actor) for entry in told.entries("fleet")] == [
        ("hold", "the-admin"),
        ("resume", "the-admin"),
    ]
    assert api.post("nodes/nobody/hold").status_code == 404


def test_an_enrolment_token_enrols_a_node(api):
    made = api.post("enrolment-tokens", uses=1, ttl_s=600)
    assert made.status_code == 201
    assert enrol(made.json()["token"], "n09", datetime.now().astimezone())
    assert EnrolmentToken.objects.get().created_by == "the-admin"
    assert api.get("nodes/n09").json()["state"] == "unknown"


@pytest.mark.parametrize(
    ("body", "field"),
    [({"uses": 0}, "uses"), ({"ttl_s": 0}, "ttl_s"), ({"ttl_s": 10**12}, "ttl_s"), ({"ttl_s": 10**30}, "ttl_s")],
)
def test_an_enrolment_token_is_bounded(api, body, field):
    assert api.post("enrolment-tokens", **body).json()["field"] == field
    assert not EnrolmentToken.objects.exists()


def test_an_admin_ends_the_tokens_of_a_node_and_it_is_told(api):
    enrol(api.post("enrolment-tokens").json()["token"], "n09", datetime.now().astimezone())
    assert api.post("nodes/n09/revoke").json() == {"revoked": 1}
    assert api.post("nodes/n09/revoke").json() == {"revoked": 0}
    assert "revoked the tokens of node n09" in told.entries("fleet").first().sentence
    assert api.post("nodes/nobody/revoke").status_code == 404
