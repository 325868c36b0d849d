"""Who comes in, and what everybody is told who does not."""

import json
import re

import pytest
from django.db import OperationalError
from django.test import Client

from controlplane.access import actions, queries
from controlplane.access.models import User
from controlplane.ingest.app import ROUTES
from controlplane.web.api.api import api as the_api
from tests.api.conftest import NOW, Asking
from tests.architecture.sources import ROOT


def operations():
    for path, methods in the_api.get_openapi_schema()["paths"].items():
        for method in methods:
            yield method, re.sub(r"{name}", "demo", re.sub(r"{\w+(_id|number)}", "1", path)).replace("{number}", "1")


@pytest.mark.django_db
@pytest.mark.parametrize(("method", "path"), list(operations()))
def test_a_stranger_is_told_to_sign_in(client, method, path):
    answer = getattr(client, method)(path)
    assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated")
    assert answer.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize(("method", "path"), [case for case in operations() if case[0] == "post"])
def test_a_viewer_writes_nothing_and_hears_which_role_may(asking_as, method, path):
    body = {"name": "x", "launcher": "h", "nodes_wanted": 1, "mode": "ask", "text": "t", "sentence": "s", "reason": "r",
            "approval": 1, "kind": "k", "check": "c", "run": "demo", "answer": "a",
            "url": "u", "minutes": 1, "enabled": True, "steps": []}  # fmt: skip
    answer = asking_as("viewer").post(path.removeprefix("/api/v1/"), **body)
    assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
    assert re.search("needs the role (responder|operator|admin); yours is viewer", answer.json()["message"])


def test_a_person_is_told_what_they_may_do(asking_as):
    me = asking_as("responder").get("me").json()
    assert (me["name"], me["role"]) == ("the-responder", "responder")
    assert "acknowledge" in me["may"]
    assert "approve" not in me["may"]


@pytest.mark.django_db
@pytest.mark.parametrize("token", ["wrong", "", "\u00e4", "x" * 10_000])
def test_a_wrong_token_is_refused_even_beside_a_session(client, token):
    client.force_login(User.objects.create_user("ana", role="admin"))
    assert client.get("/api/v1/me").status_code == 200
    answer = client.get("/api/v1/me", HTTP_AUTHORIZATION=f"Bearer {token}".encode().decode("latin-1"))
    assert answer.status_code == 401


def test_a_revoked_token_opens_nothing(client, api):
    admin = User.objects.get()
    actions.revoke_api_token(admin, queries.tokens_of(admin).get().pk, NOW)
    assert api.get("me").status_code == 401


@pytest.mark.django_db
def test_a_session_reads_but_writes_only_with_the_token_of_a_page(run):
    client = Client(enforce_csrf_checks=True)
    client.force_login(User.objects.create_user("ana", role="admin"))
    assert client.get("/api/v1/runs/demo").status_code == 200
    forged = client.post("/api/v1/runs/demo/hold")
    assert (forged.status_code, forged.json()["code"]) == (403, "forbidden")
    page = client.get("/api/v1/docs").text
    token = re.search(r'data-csrf-token="(\w+)"', page)[1]
    assert client.post("/api/v1/runs/demo/hold", headers={"X-CSRFToken": token}).status_code == 200


@pytest.mark.django_db
def test_a_one_time_password_opens_no_api(client):
    client.force_login(User.objects.create_user("ana", role="admin", must_change_password=True))
    answer = client.get("/api/v1/me")
    assert (answer.status_code, answer.json()["message"]) == (403, "choose an own password first")


def test_an_address_that_is_not_there_answers_in_json(api):
    answer = api.get("nothing/here")
    assert (answer.status_code, answer.json()) == (
        404, {"code": "not_found", "message": "there is nothing at /api/v1/nothing/here"},
    )  # fmt: skip


@pytest.mark.parametrize(
    "path", ["runs/a%00b", "runs/-x", "nodes/%20", "incidents/0", f"incidents/{2**63}", "incidents/x"]
)
def test_a_name_or_number_that_cannot_be_is_refused(api, path):
    answer = api.get(path)
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid")
    assert answer.json()["field"] in {"name", "incident_id"}


@pytest.mark.parametrize("path", ["runs/nobody", "nodes/nobody", "incidents/4711", "executions/4711"])
def test_what_does_not_exist_is_not_found(api, path):
    answer = api.get(path)
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


@pytest.mark.parametrize("body", ["", "{", "[]", "null", '{"text": 1}', '{"words": "x"}'])
def test_a_body_that_makes_no_sense_is_refused(client, api, incident, body):
    path = f"/api/v1/incidents/{incident.pk}/note"
    answer = client.post(path, body, content_type="application/json", headers=api.headers)
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid")


def test_a_database_that_is_gone_is_said_with_a_time_to_come_back(api, monkeypatch):
    def gone(_name):
        raise OperationalError("the server closed the connection")

    monkeypatch.setattr("controlplane.runs.queries.run_named", gone)
    answer = api.get("runs/demo")
    assert (answer.status_code, answer.json()["code"], answer.headers["retry-after"]) == (503, "unavailable", "5")


def test_a_mistake_of_ours_tells_no_secrets(api, monkeypatch):
    def broken(_name):
        raise RuntimeError("password=hunter2")

    monkeypatch.setattr("controlplane.runs.queries.run_named", broken)
    answer = api.get("runs/demo")
    assert (answer.status_code, answer.json()["code"]) == (500, "error")
    assert "hunter2" not in answer.text


class TestTheDocumentation:
    @pytest.mark.django_db
    def test_is_not_for_strangers(self, client):
        assert client.get("/api/v1/docs", headers={"Accept": "text/html"}).headers["location"].startswith("/sign-in/")
        assert client.get("/api/v1/openapi.json", headers={"Accept": "application/json"}).status_code == 401

    def test_can_be_read_by_programs(self, api):
        schema = api.get("openapi.json").json()
        assert schema["info"]["title"] == "Middlewatch"
        assert "/api/v1/incidents/{incident_id}/acknowledge" in schema["paths"]

    @pytest.mark.django_db
    def test_holds_nothing_inline_and_comes_from_here(self, client):
        client.force_login(User.objects.create_user("ana"))
        page = client.get("/api/v1/docs").text
        assert "https://" not in page
        assert json.loads(re.search(r'settings">(.*?)</script>', page)[1])["url"] == "/api/v1/openapi.json"

    def test_names_each_operation_with_its_act(self):
        text = (ROOT / "docs/rest.md").read_text()
        described = set(re.findall(r"^\| `([A-Z]+ /api/v1/\S+)` \|", text, flags=re.MULTILINE))
        paths = the_api.get_openapi_schema()["paths"]
        assert described == {f"{method.upper()} {path}" for path, methods in paths.items() for method in methods}

    def test_leaves_the_addresses_of_agents_alone(self):
        assert not set(ROUTES) & set(the_api.get_openapi_schema()["paths"])


@pytest.mark.django_db
def test_asking_without_a_token_is_asking_as_a_stranger(client):
    assert Asking(client).get("me").status_code == 401
