import pytest

from controlplane.events.models import Event
from controlplane.runbooks import approvals, wide_undo
from controlplane.runbooks.models import Execution, StepRun
from tests.api.conftest import NOW


def test_an_execution_is_shown_with_its_steps(api, execution):
    shown = api.get(f"executions/{execution.pk}").json()
    assert (shown["runbook"], shown["run"], shown["state"]) == ("restart-after-crash", "demo", "proposed")
    assert [(step["name"], step["state"]) for step in shown["steps"]] == [("collect", "done")]


def test_executions_are_listed_by_state_and_incident(api, execution, incident):
    ids = lambda **query: [item["id"] for item in api.get("executions", **query).json()["items"]]  # noqa: E731
    assert ids() == ids(state="proposed") == ids(incident=incident.pk) == [execution.pk]
    assert ids(state="running") == ids(incident=incident.pk + 1) == []


def test_a_proposal_is_approved_once(api, execution):
    asked = approvals.ask(execution, "the run asks before it acts", NOW)
    path = f"executions/{execution.pk}/approve"
    assert api.post(path, approval=asked.pk).json()["state"] in {"running", "waiting"}
    assert api.post(path, approval=asked.pk).status_code == 409


def test_nobody_says_yes_to_a_question_that_was_not_looked_at(api, execution):
    approvals.ask(execution, "the run asks before it acts", NOW)
    refused = api.post(f"executions/{execution.pk}/approve", reason="go")
    assert (refused.status_code, refused.json()["code"]) == (400, "invalid")
    assert "approval" in refused.json()["field"]
    execution.refresh_from_db()
    assert execution.state == "proposed"


def test_a_proposal_is_rejected_with_a_reason(api, execution):
    shown = api.post(f"executions/{execution.pk}/reject", reason="maintenance").json()
    assert shown["state"] == "rejected"
    assert "maintenance" in shown["outcome"]


def test_an_execution_is_paused_resumed_and_stopped(api, execution):
    Execution.objects.update(state="waiting")
    path = f"executions/{execution.pk}"
    assert api.post(f"{path}/pause").json()["state"] == "paused"
    assert api.post(f"{path}/resume").json()["state"] in {"running", "waiting"}
    assert api.post(f"{path}/stop").json()["state"] == "stopped"
    assert api.post(f"{path}/pause").status_code == 409


@pytest.mark.parametrize("query", [{"run": "demo"}, {"node": "n01"}, {}])
def test_the_newest_events_are_shown(api, query):
    for number in (1, 2, 3):
        Event.objects.create(
            id=number, received_at=NOW, node="n01", incarnation="i", seq=number, at_ms=number, kind="rank.step",
            run="demo", data={"step": number},
        )  # fmt: skip
    shown = api.get("events", limit=2, **query).json()
    assert [event["data"]["step"] for event in shown] == [3, 2]
    assert api.get("events", run="other").json() == []


def test_a_question_is_shown_answered_by_its_number_and_what_was_done_is_taken_back(
    api, asking_as, execution, monkeypatch
):
    path = f"executions/{execution.pk}"
    asked = approvals.ask(execution, "the run asks before it acts", NOW)
    shown = api.get(path).json()["approvals"][0]
    assert (shown["id"], shown["state"], shown["persons"]) == (asked.pk, "open", 1)
    assert api.post(f"{path}/approve", approval=asked.pk + 1).status_code == 409
    answered = api.post(f"{path}/approve", approval=asked.pk, reason="go").json()["approvals"][0]
    assert (answered["state"], answered["answers"][0]["why"]) == ("approved", "go")
    assert api.post(f"{path}/stop-after").json()["stop_after_by"]
    assert api.post(f"{path}/undo").json()["message"] == "nothing that it did can be taken back"
    StepRun.objects.create(execution=execution, index=1, name="confirm", state="done", started_at=NOW, finished_at=NOW)
    monkeypatch.setattr(wide_undo, "is_wide", lambda *_: True)
    asked = api.post(f"{path}/undo").json()
    assert asked["state"] in {"running", "waiting", "stopped"}
    assert (asked["approvals"][-1]["purpose"], asked["approvals"][-1]["persons"]) == ("undo", 2)
    assert api.post(f"{path}/undo").status_code == 409
    assert asking_as("operator").post(f"{path}/undo").json()["state"] in {"undoing", "undone"}
