from datetime import UTC, datetime, timedelta

import pytest
import time_machine

from controlplane.access import actions, throttle
from controlplane.domain.errors import Refused

NOW = datetime(2026, 11, 29, 2, 0, tzinfo=UTC)


def sign_in(client, name="ana", password="right horse battery", **more):  # noqa: S107
    return client.post("/sign-in/", {"name": name, "password": password} | more)


def test_a_name_and_its_password_sign_in_and_lead_back(client, person):
    person()
    answer = sign_in(client, next="/people-i-came-from/?x=1")
    assert answer.headers["location"] == "/people-i-came-from/?x=1"
    assert client.session["_auth_user_id"]


@pytest.mark.parametrize("where", ["https://evil.example/", "//evil.example/", "javascript:alert(1)"])
def test_the_way_back_never_leaves_this_host(client, person, where):
    person()
    assert sign_in(client, next=where).headers["location"] == "/"


def test_a_wrong_password_and_an_unknown_name_look_the_same(client, person):
    person()
    wrong, unknown = sign_in(client, password="wrong"), sign_in(client, name="nobody")
    assert wrong.status_code == unknown.status_code == 403
    for answer in (wrong, unknown):
        assert "The name or the password is wrong" in answer.text
    assert "right horse" not in wrong.text


def test_somebody_put_aside_cannot_sign_in(client, person):
    person(is_active=False)
    assert sign_in(client).status_code == 403


def test_guessing_one_name_is_stopped_even_from_many_addresses(client, person):
    person()
    for turn in range(throttle.MAX_TRIES_PER_NAME):
        client.defaults["REMOTE_ADDR"] = f"10.0.0.{turn}"
        assert sign_in(client, name="ANA ", password="guess").status_code == 403
    answer = sign_in(client)
    assert answer.status_code == 429
    assert "Too many tries. Wait 15 minutes" in answer.text
    assert "_auth_user_id" not in client.session


@pytest.mark.django_db
def test_guessing_many_names_from_one_address_is_stopped():
    for turn in range(throttle.MAX_TRIES_PER_ADDRESS):
        throttle.admit(f"person-{turn}", "10.0.0.1", NOW)
    with pytest.raises(Refused, match="Too many tries"):
        throttle.admit("somebody-else", "10.0.0.1", NOW)
    throttle.admit("somebody-else", "10.0.0.2", NOW)


@pytest.mark.django_db
def test_a_guesser_cannot_keep_a_person_out_for_longer_than_one_window():
    for _ in range(throttle.MAX_TRIES_PER_NAME):
        throttle.admit("ana", "10.0.0.1", NOW)
    for minute in range(1, 15):
        with pytest.raises(Refused, match=f"Wait {15 - minute} minute"):
            throttle.admit("ana", "10.0.0.1", NOW + timedelta(minutes=minute))
    throttle.admit("ana", "10.0.0.1", NOW + throttle.WINDOW)


def test_the_right_password_forgets_the_wrong_ones(client, person):
    person()
    for _ in range(3):
        for _ in range(throttle.MAX_TRIES_PER_NAME - 1):
            sign_in(client, password="slip")
        assert sign_in(client).status_code == 302


def test_a_one_time_password_must_be_changed_first(client, db):
    _, one_time = actions.create_person("bo", "responder", NOW)
    sign_in(client, name="bo", password=one_time)
    assert client.get("/settings/people/").headers["location"] == "/password/"
    weak = client.post("/password/", {"new_password1": "12345", "new_password2": "12345"})
    assert weak.status_code == 400
    own = {"new_password1": "four words of own", "new_password2": "four words of own"}
    assert client.post("/password/", own).headers["location"] == "/"
    assert client.session["_auth_user_id"]
    assert client.get("/settings/people/").status_code == 403
    client.logout()
    assert sign_in(client, name="bo", password="four words of own").status_code == 302


def test_signing_out_takes_a_post(client, person):
    client.force_login(person())
    assert client.get("/sign-out/").status_code == 405
    assert client.post("/sign-out/").headers["location"] == "/sign-in/"
    assert "_auth_user_id" not in client.session


@pytest.mark.django_db
class TestAStranger:
    def test_is_led_to_the_sign_in_page_and_back(self, client):
        assert client.get("/settings/people/").headers["location"] == "/sign-in/?next=/settings/people/"

    def test_with_a_page_that_asks_by_htmx_leaves_the_whole_page(self, client):
        headers = {"HX-Request": "true", "HX-Current-URL": "http://testserver/runs/demo/"}
        answer = client.get("/settings/people/", headers=headers)
        assert answer.headers["hx-redirect"] == "/sign-in/?next=%2Fruns%2Fdemo%2F"

    def test_that_is_a_program_gets_401(self, client):
        answer = client.get("/settings/people/", headers={"Accept": "application/json"})
        assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated")

    @pytest.mark.parametrize("address", ["/sign-in/", "/healthz", "/readyz"])
    def test_may_open(self, client, address):
        assert client.get(address).status_code == 200


@pytest.mark.django_db
def test_a_session_lasts_over_midnight(client, person):
    with time_machine.travel(NOW - timedelta(hours=4)):
        client.force_login(person(role="admin"))
    with time_machine.travel(NOW + timedelta(hours=4)):
        assert client.get("/settings/people/").status_code == 200
