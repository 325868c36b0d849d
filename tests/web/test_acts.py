"""Forms do what they say, only for who may, and say what went wrong."""

import pytest
from django.test import Client

from controlplane.domain import errors
from controlplane.domain.errors import Conflict, MiddlewatchError
from controlplane.fleet.models import Node
from controlplane.incidents.models import Incident
from controlplane.runbooks.models import Execution, ExecutionState
from controlplane.web.errors import TABLE, answer
from controlplane.web.views import fleet
from tests.web.world import build, person

pytestmark = pytest.mark.django_db
HTMX = {"HX-Request": "true"}


@pytest.fixture
def world():
    return build()


def _as(client, role):
    client.force_login(person(role, role))
    return client


def test_acknowledging_leads_back_to_the_incident(client, world):
    answer = _as(client, "responder").post(f"/incidents/{world.incident.pk}/acknowledge/")
    assert (answer.status_code, answer["Location"]) == (302, f"/incidents/{world.incident.pk}/")
    assert Incident.objects.get(pk=world.incident.pk).acknowledged_by == "responder"


def test_acknowledging_twice_says_who_was_first(client, world):
    _as(client, "responder")
    client.post(f"/incidents/{world.incident.pk}/acknowledge/")
    html = client.post(f"/incidents/{world.incident.pk}/acknowledge/", headers=HTMX).content.decode()
    assert "responder acknowledged it before" in html


@pytest.mark.parametrize("act", ["acknowledge", "note"])
def test_a_viewer_changes_nothing(client, world, act):
    _as(client, "viewer").post(f"/incidents/{world.incident.pk}/{act}/", {"text": "hello"}, headers=HTMX)
    incident = Incident.objects.get(pk=world.incident.pk)
    assert incident.acknowledged_at is None
    assert "hello" not in client.get(f"/incidents/{incident.pk}/").content.decode()


def test_a_responder_pauses_and_an_operator_lets_it_go_on(client, world):
    _as(client, "responder").post(f"/executions/{world.execution.pk}/pause/")
    assert Execution.objects.get().state == ExecutionState.PAUSED
    client.post(f"/executions/{world.execution.pk}/resume/")
    assert Execution.objects.get().state == ExecutionState.PAUSED
    _as(Client(), "operator").post(f"/executions/{world.execution.pk}/resume/")
    assert Execution.objects.get().state == ExecutionState.RUNNING


def test_a_proposal_shows_what_it_asks_and_is_rejected_by_an_operator(client, world):
    Execution.objects.update(state=ExecutionState.PROPOSED)
    Incident.objects.filter(pk=world.incident.pk).update(
        decision={"why": "the run asks before it acts", "held_by": "ask"}
    )
    html = _as(client, "operator").get(f"/incidents/{world.incident.pk}/").content.decode()
    assert "Waits for a decision" in html
    assert "The run asks before it acts." in html
    client.post(f"/executions/{world.execution.pk}/reject/")
    assert Execution.objects.get().state == ExecutionState.REJECTED


@pytest.mark.parametrize("path", ["/executions/999/pause/", "/executions/{execution}/explode/"])
def test_an_act_that_does_not_exist_is_not_found(client, world, path):
    assert _as(client, "admin").post(path.format(execution=world.execution.pk)).status_code in (303, 404)


def test_a_run_is_held_and_given_back(client, world):
    _as(client, "operator").post("/runs/llama-70b-v3/hold/")
    world.run.refresh_from_db()
    assert (world.run.held, world.run.held_by) == (True, "operator")
    assert "held by operator" in client.get("/runs/llama-70b-v3/").content.decode()
    client.post("/runs/llama-70b-v3/resume/")
    world.run.refresh_from_db()
    assert not world.run.held


def test_an_operator_releases_a_node_and_a_responder_does_not(client, world):
    _as(client, "responder").post("/nodes/n07/release/")
    assert Node.objects.get(name="n07").state == "quarantined"
    _as(Client(), "operator").post("/nodes/n07/release/")
    assert Node.objects.get(name="n07").state == "spare"


def test_an_empty_note_names_the_field(client, world):
    answered = _as(client, "responder").post(f"/incidents/{world.incident.pk}/note/", {"text": "  "}, headers=HTMX)
    assert answered.status_code == 400
    assert "text: must not be empty" in answered.content.decode()


def test_a_form_without_a_token_is_refused_with_a_page_that_explains(world):
    strict = Client(enforce_csrf_checks=True)
    answered = _as(strict, "operator").post("/runs/llama-70b-v3/hold/")
    assert answered.status_code == 403
    assert "This form is too old" in answered.content.decode()


@pytest.mark.parametrize("path", ["/incidents/1/acknowledge/", "/runs/llama-70b-v3/hold/", "/nodes/n07/release/"])
def test_acts_are_never_done_by_following_a_link(client, world, path):
    assert _as(client, "operator").get(path).status_code == 405


def test_every_error_of_the_domain_has_an_answer():
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, MiddlewatchError)]
    assert {kind.code for kind in kinds} <= set(TABLE)


def test_an_error_that_nobody_listed_is_a_mistake_of_ours():
    class Strange(Conflict):
        code = "strange"

    assert answer(Strange("x")).status == 500


def test_a_broken_page_says_so_and_calms(client, world, monkeypatch):
    def explode(_now):
        raise ZeroDivisionError

    monkeypatch.setattr(fleet.fleet, "state", explode)
    client.raise_request_exception = False
    answered = _as(client, "viewer").get("/")
    assert answered.status_code == 500
    assert "Something went wrong here, not in your run" in answered.content.decode()
