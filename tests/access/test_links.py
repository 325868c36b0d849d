from datetime import UTC, datetime, timedelta

import pytest
from django.core.management import CommandError, call_command

from controlplane.access import actions, links, queries
from controlplane.access.models import SignInLink
from controlplane.domain.errors import NotFound

NOW = datetime(2026, 11, 29, 2, 0, tzinfo=UTC)


@pytest.fixture
def link(person):
    user = person()

    def make(now=None, **more):
        address = actions.make_sign_in_link(user, now or datetime.now(UTC), **more)
        return address.removeprefix("http://127.0.0.1:8000")

    return make


def token(address):
    return address.rstrip("/").rsplit("/", 1)[1]


def test_a_link_signs_in_once(client, link):
    address = link()
    assert client.post(address).headers["location"] == "/"
    assert client.session["_auth_user_id"]
    client.logout()
    assert client.post(address).status_code == 404
    assert "_auth_user_id" not in client.session


def test_a_link_leads_straight_in_though_a_one_time_password_was_never_used(client, db):
    user, one_time = actions.create_person("bo", "admin", NOW)
    client.post(actions.make_sign_in_link(user, datetime.now(UTC)))
    assert client.get("/settings/people/").status_code == 200
    assert client.get("/api/v1/me", headers={"Accept": "application/json"}).status_code == 200
    client.logout()
    client.post("/sign-in/", {"name": "bo", "password": one_time})
    assert client.get("/settings/people/").headers["location"] == "/password/"


def test_looking_at_a_link_spends_nothing(client, link):
    address = link()
    for _ in range(3):
        page = client.get(address)
        assert "Sign in as ana" in page.text
        assert page.headers["cache-control"].count("no-store") == 1
    assert "_auth_user_id" not in client.session
    assert client.post(address).status_code == 302


def test_a_page_for_somebody_signed_in_does_not_press_its_button_itself(client, link, person):
    address = link()
    assert "sign-in-link.js" in client.get(address).text
    client.force_login(person("bo"))
    page = client.get(address).text
    assert "sign-in-link.js" not in page
    assert "signed in as" in page


def test_an_old_link_is_refused_with_a_sentence(client, link):
    address = link(now=datetime.now(UTC) - timedelta(minutes=16))
    assert client.post(address).status_code == 404
    page = client.get(address)
    assert page.status_code == 404
    assert "does not work any more" in page.text


def test_a_link_may_live_longer(link):
    address = link(now=NOW, life=timedelta(hours=8))
    assert actions.use_sign_in_link(token(address), NOW + timedelta(hours=7)).username == "ana"


def test_a_link_dies_with_its_person(link):
    address = link(now=NOW)
    actions.set_active("ana", active=False)
    assert queries.person_of_link(token(address), NOW) is None
    with pytest.raises(NotFound):
        actions.use_sign_in_link(token(address), NOW)


def test_only_the_hash_of_a_link_is_stored(link):
    address = link()
    assert token(address) not in str(SignInLink.objects.values().get())


def test_the_command_prints_a_link_that_works(client, person, capsys):
    person()
    call_command("signin-link", "ana")
    address = capsys.readouterr().out.strip()
    assert client.post(address.removeprefix("http://127.0.0.1:8000")).status_code == 302


@pytest.mark.django_db
def test_the_command_says_when_there_is_no_such_person():
    with pytest.raises(CommandError, match="no person named nobody"):
        call_command("signin-link", "nobody")


def test_links_that_are_over_are_forgotten_after_their_time(link):
    link(NOW, life=timedelta(days=1))
    link(NOW, life=timedelta(days=2))
    assert links.forget_sign_in(NOW + timedelta(days=31, seconds=1), timedelta(days=30)) == 1
    assert SignInLink.objects.get().expires_at == NOW + timedelta(days=2)
