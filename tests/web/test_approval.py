"""The approval card says what will happen, to what, why and what silence means; a yes takes two taps or a name."""

from datetime import timedelta

import pytest

from controlplane.incidents.models import Incident
from controlplane.notify.models import Call, Transport
from controlplane.runbooks import approvals, registry, switches
from controlplane.runbooks.models import Approval, Execution, ExecutionState, StepRun
from controlplane.web.read import approval as read
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


def _yes():
    return {"word": "llama-70b-v3", "number": Approval.objects.latest("pk").pk}


def _state():
    return Execution.objects.get().state


def test_both_pages_show_the_question_with_its_reason_its_steps_and_what_silence_means(client, world, paths):
    _as(client, "operator")
    for path in paths:
        html = client.get(path).content.decode()
        assert "Waits for a decision: Restart after a crash" in html
        assert "The run asks before it acts." in html
        assert "</span>. Without an answer nothing is done, and somebody is called." in html
        assert '<ol class="plainly"><li>' in html


def test_where_nobody_can_be_called_the_question_promises_no_call(client, world, paths):
    Call.objects.update(rules=0)
    Transport.objects.update(enabled=False)
    _as(client, "operator")
    html = client.get(paths[0]).content.decode()
    assert "Without an answer nothing is done. Nobody will be called: there is no transport yet." in html


def test_a_yes_needs_the_name_of_the_run(client, world, paths):
    _as(client, "operator")
    refused = client.post(f"{paths[1]}approve/", {"word": "yes"}, headers=HTMX).content.decode()
    assert "type llama-70b-v3 to approve" in refused
    assert _state() == ExecutionState.PROPOSED
    client.post(f"{paths[1]}approve/", _yes())
    assert _state() == ExecutionState.RUNNING


def test_a_yes_without_the_question_that_was_looked_at_is_none(client, world, paths):
    form = {"word": "llama-70b-v3"}
    html = _as(client, "operator").post(f"{paths[1]}approve/", form, headers=HTMX).content.decode()
    assert "look at what is proposed before you approve it" in html
    assert _state() == ExecutionState.PROPOSED


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
    client.post(f"{paths[1]}approve/", _yes())
    html = client.get(paths[0]).content.decode()
    assert "operator agreed; a second person has to agree as well." in html
    assert "you agreed; a second person has to" in html
    _as(client, "operator", "bo").post(f"{paths[1]}approve/", _yes())
    assert _state() == ExecutionState.RUNNING


def test_a_question_that_nobody_answered_in_time_may_still_be_answered(client, world, paths):
    approvals.lapse(world.now + timedelta(days=1))
    html = _as(client, "operator").get(paths[1]).content.decode()
    assert "nobody answered in time" in html.lower()
    client.post(f"{paths[1]}approve/", _yes())
    assert _state() == ExecutionState.RUNNING


def test_who_may_not_decide_sees_which_role_does(client, world, paths):
    html = _as(client, "responder").get(paths[0]).content.decode()
    assert html.count("needs the role operator") >= 2
    client.post(f"{paths[1]}approve/", _yes())
    assert _state() == ExecutionState.PROPOSED


def test_while_automation_is_off_no_yes_is_offered(client, world, paths):
    switches.off(None, "bo", "", world.now)
    html = _as(client, "operator").get(paths[1]).content.decode()
    assert "bo switched automation off everywhere" in html
    client.post(f"{paths[1]}approve/", _yes())
    assert _state() == ExecutionState.PROPOSED


@pytest.fixture
def asked(world):
    """A planned change that waits for a person's word."""
    Execution.objects.all().delete()
    runbook = registry.runbook("planned-change")
    place = next(place for place, step in enumerate(runbook.steps) if step.action.name == "await_person")
    made = Execution.objects.create(
        runbook=runbook.id, version=runbook.version, digest=runbook.digest, incident=world.incident, run=world.run,
        attempt=2, state="waiting", step_index=place, created_at=world.now, key="planned",
    )  # fmt: skip
    StepRun.objects.create(
        execution=made, index=place, name=runbook.steps[place].name, state="waiting", started_at=world.now,
        deadline=world.now + timedelta(days=1),
        intent={"question": "Is <b>it</b> applied?", "answers": ["go on", "leave it stopped"]},
    )  # fmt: skip
    return made


def test_what_a_step_asks_people_stands_on_both_pages_and_is_answered_once(client, world, asked):
    _as(client, "operator")
    own, incident = f"/executions/{asked.pk}/", f"/incidents/{world.incident.pk}/"
    for path in (own, incident):
        html = client.get(path).content.decode()
        assert "Is &lt;b&gt;it&lt;/b&gt; applied?" in html
        assert '<button name="answer" value="leave it stopped">' in html
    assert 'href="#approval"' in html
    client.post(f"{own}answer/", {"answer": "go on", "note": "firmware 7"})
    asked.refresh_from_db()
    step = next(iter(asked.context["answers"].values()))
    assert (step["answer"], step["by"], step["note"]) == ("go on", "operator", "firmware 7")
    assert "Is &lt;b&gt;it" not in client.get(incident).content.decode()


def test_an_answer_that_was_not_offered_or_not_allowed_is_none(client, world, asked):
    own = f"/executions/{asked.pk}/answer/"
    html = _as(client, "operator").post(own, {"answer": "explode"}, headers=HTMX).content.decode()
    assert "answer: must be one of go on, leave it stopped" in html
    _as(client, "responder").post(own, {"answer": "go on"})
    asked.refresh_from_db()
    assert "answers" not in asked.context


def test_pages_of_others_learn_that_one_of_two_agreed(world):
    Approval.objects.update(persons=2)
    before = read.signature(world.execution)
    approvals.approve(world.execution, "ana", world.now)
    assert read.signature(world.execution) != before
