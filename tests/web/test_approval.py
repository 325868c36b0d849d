"""The approval card says what will happen, to what, why and what silence means; a yes takes two taps or a name."""

from datetime import timedelta

import pytest

from controlplane.incidents.models import Incident
from controlplane.runbooks import approvals, switches
from controlplane.runbooks.models import Approval, Execution, ExecutionState
from tests.web.world import build, person

pytestmark = pytest.mark.django_db
HTMX = {"HX-Request": "true"}


@pytest.fixture
def world():
    made = build()
    Execution.objects.filter(pk=made.execution.pk).update(state=ExecutionState.PROPOSED, held_by="ask", step_index=0)
    held = {"why": "the run asks before it acts", "held_by": "ask"}
    Incident.objects.filter(pk=made.incident.pk).update(decision=held)
    made.execution.refresh_from_db()
    approvals.ask(made.execution, "the run asks before it acts", made.now)
    return made


@pytest.fixture
def paths(world):
    return f"/incidents/{world.incident.pk}/", f"/executions/{world.execution.pk}/"


def _as(client, role, name=""):
    client.force_login(person(name or role, role))
    return client


def _state():
    return Execution.objects.get().state


def test_both_pages_show_the_question_with_its_reason_its_steps_and_what_silence_means(client, world, paths):
    _as(client, "operator")
    for path in paths:
        html = client.get(path).content.decode()
        assert "Waits for a decision: Restart after a crash" in html
        assert "The run asks before it acts." in html
        assert "Without an answer nothing is done by then, and somebody is called" in html
        assert '<ol class="plainly"><li>' in html


def test_a_yes_needs_the_name_of_the_run(client, world, paths):
    _as(client, "operator")
    refused = client.post(f"{paths[1]}approve/", {"word": "yes"}, headers=HTMX).content.decode()
    assert "type llama-70b-v3 to approve" in refused
    assert _state() == ExecutionState.PROPOSED
    client.post(f"{paths[1]}approve/", {"word": "llama-70b-v3"})
    assert _state() == ExecutionState.RUNNING


def test_a_no_keeps_its_reason(client, world, paths):
    _as(client, "operator").post(f"{paths[1]}reject/", {"why": "maintenance at four"})
    assert _state() == ExecutionState.REJECTED
    assert Approval.objects.get().answers[0]["why"] == "maintenance at four"


def test_an_answer_to_a_question_that_was_asked_anew_is_none(client, world, paths):
    looked_at = Approval.objects.get().pk
    approvals.ask(world.execution, "the run asks before it acts", world.now)
    _as(client, "operator")
    form = {"word": "llama-70b-v3", "number": looked_at}
    html = client.post(f"{paths[1]}approve/", form, headers=HTMX).content.decode()
    assert "has changed meanwhile" in html
    assert _state() == ExecutionState.PROPOSED


def test_what_changed_since_it_was_asked_is_told_before_anybody_answers(client, world, paths):
    Approval.objects.update(world={**Approval.objects.get().world, "exclude": ["n09"]})
    html = _as(client, "operator").get(paths[1]).content.decode()
    assert "Changed since it was asked:" in html


def test_where_two_have_to_agree_the_first_cannot_be_the_second(client, world, paths):
    Approval.objects.update(persons=2)
    html = _as(client, "operator").get(paths[0]).content.decode()
    assert "Two different people have to agree" in html
    client.post(f"{paths[1]}approve/", {"word": "llama-70b-v3"})
    html = client.get(paths[0]).content.decode()
    assert "operator agreed; a second person has to agree as well." in html
    assert "you agreed; a second person has to" in html
    _as(client, "operator", "bo").post(f"{paths[1]}approve/", {"word": "llama-70b-v3"})
    assert _state() == ExecutionState.RUNNING


def test_a_question_that_nobody_answered_in_time_may_still_be_answered(client, world, paths):
    approvals.lapse(world.now + timedelta(days=1))
    html = _as(client, "operator").get(paths[1]).content.decode()
    assert "nobody answered in time" in html.lower()
    client.post(f"{paths[1]}approve/", {"word": "llama-70b-v3"})
    assert _state() == ExecutionState.RUNNING


def test_who_may_not_decide_sees_which_role_does(client, world, paths):
    html = _as(client, "responder").get(paths[0]).content.decode()
    assert html.count("needs the role operator") >= 2
    client.post(f"{paths[1]}approve/", {"word": "llama-70b-v3"})
    assert _state() == ExecutionState.PROPOSED


def test_while_automation_is_off_no_yes_is_offered(client, world, paths):
    switches.off(None, "bo", "", world.now)
    html = _as(client, "operator").get(paths[1]).content.decode()
    assert "bo switched automation off everywhere" in html
    client.post(f"{paths[1]}approve/", {"word": "llama-70b-v3"})
    assert _state() == ExecutionState.PROPOSED
