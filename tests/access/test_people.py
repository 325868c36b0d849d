import threading
from datetime import UTC, datetime

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from controlplane.access import actions, queries
from controlplane.access.models import ApiToken, User
from controlplane.domain.errors import Conflict, Invalid, NotFound, Refused

NOW = datetime(2026, 11, 29, 2, 0, tzinfo=UTC)


@pytest.fixture
def admin(client, person):
    user = person("ana", role="admin")
    client.force_login(user)
    return user


def test_an_admin_adds_a_person_who_can_sign_in(client, admin):
    page = client.post("/settings/people/", {"name": "bo", "role": "operator"})
    password = page.context["added"]["password"]
    assert f"<code>{password}</code>" in page.text
    assert password not in client.get("/settings/people/").text
    client.logout()
    client.post("/sign-in/", {"name": "bo", "password": password})
    assert client.session["_auth_user_id"] == str(queries.person("bo").pk)


@pytest.mark.parametrize(
    ("name", "role", "why"),
    [
        ("ana", "viewer", "already"),
        ("a b", "viewer", "valid username"),
        ("", "viewer", "required"),
        ("bo", "king", "king"),
    ],
)
def test_a_person_that_cannot_be_added_is_explained(client, admin, name, role, why):
    page = client.post("/settings/people/", {"name": name, "role": role})
    assert page.status_code == 400
    assert why in page.text
    assert User.objects.count() == 1


def test_an_admin_changes_a_role_and_puts_a_person_aside(client, admin, person):
    person("bo")
    client.post("/settings/people/bo/", {"do": "role", "role": "operator"})
    client.post("/settings/people/bo/", {"do": "put_aside"})
    bo = queries.person("bo")
    assert (bo.role, bo.is_active) == ("operator", False)
    page = client.post("/settings/people/bo/", {"do": "take_back"}, follow=True)
    assert "bo can sign in again." in page.text


def test_the_session_of_somebody_put_aside_ends(client, person):
    client.force_login(person("bo", role="admin"))
    assert client.get("/settings/people/").status_code == 200
    User.objects.filter(username="bo").update(is_active=False)
    assert client.get("/settings/people/").headers["location"].startswith("/sign-in/")


def test_an_admin_makes_a_link_for_a_person(client, admin, person):
    person("bo")
    page = client.post("/settings/people/bo/", {"do": "link"}, follow=True)
    assert "/sign-in/link/" in page.text


@pytest.mark.parametrize("role", ["viewer", "responder", "operator"])
def test_nobody_else_manages_people(client, person, role):
    client.force_login(person("bo", role=role))
    assert client.get("/settings/people/").status_code == 403
    assert client.post("/settings/people/bo/", {"do": "role", "role": "admin"}).status_code == 403
    assert queries.person("bo").role == role


def test_the_last_admin_stays(client, admin):
    for change in ({"do": "role", "role": "viewer"}, {"do": "put_aside"}):
        page = client.post("/settings/people/ana/", change, follow=True)
        assert "ana is the only admin left" in page.text
    assert queries.person("ana").role == "admin"


@pytest.mark.django_db(transaction=True)
def test_two_admins_who_demote_each_other_at_once_leave_one():
    for name in ("ana", "bo"):
        User.objects.create_user(name, role="admin")
    together = threading.Barrier(2)
    refused = []

    def demote(name):
        together.wait(10)
        try:
            actions.set_role(name, "viewer")
        except Refused:
            refused.append(name)
        connection.close()

    threads = [threading.Thread(target=demote, args=[name]) for name in ("ana", "bo")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(refused) == 1
    assert User.objects.filter(role="admin").count() == 1


@pytest.mark.django_db
def test_actions_name_what_is_wrong():
    with pytest.raises(NotFound):
        actions.set_role("nobody", "viewer")
    with pytest.raises(Invalid) as caught:
        actions.create_person("bo", "king", NOW)
    assert caught.value.field == "role"
    actions.create_person("bo", "viewer", NOW)
    with pytest.raises(Conflict):
        actions.create_person("bo", "viewer", NOW)


def test_an_api_token_speaks_for_its_person_until_it_is_revoked(person):
    ana = person()
    token = actions.make_api_token(ana, "laptop", NOW)
    assert queries.person_of_token(token) == ana
    assert token not in str(ApiToken.objects.values().get())
    actions.revoke_api_token(ana, queries.tokens_of(ana).get().pk, NOW)
    assert queries.person_of_token(token) is None


def test_an_api_token_dies_with_its_person(person):
    token = actions.make_api_token(person(), "laptop", NOW)
    actions.set_active("ana", active=False)
    assert queries.person_of_token(token) is None


def test_a_person_has_a_bounded_number_of_tokens_with_bounded_names(person):
    ana = person()
    for turn in range(actions.MAX_TOKENS_PER_PERSON):
        actions.make_api_token(ana, f"token {turn}", NOW)
    with pytest.raises(Refused, match="revoke one first"):
        actions.make_api_token(ana, "one more", NOW)
    for name in ("", "x" * (actions.MAX_TOKEN_NAME + 1)):
        with pytest.raises(Invalid):
            actions.make_api_token(ana, name, NOW)


@pytest.mark.django_db
class TestFromAShell:
    def test_a_person_is_added_and_their_one_time_password_printed(self, client, capsys):
        call_command("person", "bo", "--role", "operator")
        client.post("/sign-in/", {"name": "bo", "password": capsys.readouterr().out.strip()})
        assert client.session["_auth_user_id"] == str(queries.person("bo").pk)
        with pytest.raises(CommandError, match="named bo already"):
            call_command("person", "bo")

    def test_a_token_is_made(self, person, capsys):
        ana = person()
        call_command("api-token", "ana", "laptop")
        assert queries.person_of_token(capsys.readouterr().out.strip()) == ana
        with pytest.raises(CommandError, match="no person named nobody"):
            call_command("api-token", "nobody", "laptop")

    def test_a_token_is_ended_by_its_name(self, person, capsys):
        person()
        call_command("api-token", "ana", "laptop")
        token = capsys.readouterr().out.strip()
        with pytest.raises(CommandError, match="no token named phone; there are: laptop"):
            call_command("api-token", "ana", "phone", "--revoke")
        call_command("api-token", "ana", "laptop", "--revoke")
        assert queries.person_of_token(token) is None
