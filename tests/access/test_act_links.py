from datetime import UTC, datetime, timedelta

import pytest

from controlplane.access import links
from controlplane.access.models import ActLink, Role
from controlplane.access.throttle import MAX_DEAD_LINKS
from controlplane.domain.errors import Invalid, NotFound
from controlplane.incidents import actions as incidents
from controlplane.incidents.models import Incident
from controlplane.runbooks.models import Approval
from tests.runbooks.test_control import proposed

NOW = datetime(2026, 11, 29, 2, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.fixture
def incident(db):
    return Incident.objects.create(klass="crash", severity="critical", title="a rank died", began_at=NOW, opened_at=NOW)


@pytest.fixture
def link(incident):
    def make(person="ana", now=None, life=HOUR):
        now = now or datetime.now(UTC)
        address = links.make("acknowledge", f"incident:{incident.pk}", person=person, now=now, life=life)
        return address.removeprefix("http://127.0.0.1:8000")

    return make


def token(address):
    return address.rstrip("/").rsplit("/", 1)[1]


def test_the_button_of_a_link_acts_once_in_the_name_of_its_person(client, link, incident, person):
    person(role=Role.RESPONDER)
    address, other = link(), link()
    shown = client.get(address)
    assert "Acknowledge as ana" in shown.text
    assert Incident.objects.get().acknowledged_by == ""
    assert "You acknowledged" in client.post(address).text
    assert Incident.objects.get().acknowledged_by == "ana"
    assert client.post(address).status_code == 404
    assert client.get(other).status_code == 404


def test_the_role_is_asked_when_the_button_is_pressed(client, link, person):
    user = person(role=Role.VIEWER)
    address = link()
    assert "this needs the role responder" in client.get(address).text
    assert client.post(address).status_code == 403
    user.role = Role.RESPONDER
    user.save()
    assert client.post(address).status_code == 200


def test_a_link_sent_to_one_person_does_nothing_for_another(client, link, person):
    person(role=Role.RESPONDER)
    client.force_login(person("ben", role=Role.ADMIN))
    assert client.post(link()).status_code == 409
    assert Incident.objects.get().acknowledged_by == ""


def test_a_link_to_nobody_needs_a_session_and_acts_for_who_is_signed_in(client, link, person):
    address = link(person="")
    assert "/sign-in/?next=%2Fact%2F" in client.post(address).headers["location"]
    client.force_login(person("ben", role=Role.RESPONDER))
    client.post(address)
    assert Incident.objects.get().acknowledged_by == "ben"


def test_a_link_dies_with_its_time_its_person_and_its_subject(client, link, incident, person):
    user = person(role=Role.RESPONDER)
    assert client.post(link(now=datetime.now(UTC) - 2 * HOUR)).status_code == 404
    user.is_active = False
    user.save()
    assert client.post(link()).status_code == 403
    last = token(link(now=NOW))
    incidents.resolve_by_hand(incident, "ben", NOW)
    with pytest.raises(NotFound):
        links.take(last, NOW)


def test_only_the_hash_of_a_link_is_stored_and_a_dead_one_is_forgotten_after_a_month(link):
    address = link(now=NOW)
    assert token(address) not in str(ActLink.objects.values().get())
    assert links.forget(NOW + timedelta(days=30)) == 0
    assert links.forget(NOW + timedelta(days=31)) == 1


def test_whoever_tries_many_dead_links_has_to_wait(client, link, person):
    person(role=Role.RESPONDER)
    for number in range(MAX_DEAD_LINKS):
        client.get(f"/act/{number}/")
    assert client.get(link()).status_code == 429


@pytest.mark.parametrize(("field", "wrong"), [
    ("purpose", {"purpose": "format"}), ("subject", {"subject": "incident"}), ("life", {"life": timedelta(days=8)}),
])  # fmt: skip
def test_a_link_that_makes_no_sense_is_not_made(field, wrong):
    sound = {"purpose": "acknowledge", "subject": "incident:1", "life": HOUR}
    with pytest.raises(Invalid) as refused:
        links.make(now=NOW, **{**sound, **wrong})
    assert refused.value.field == field


def test_a_link_approves_the_question_it_was_sent_with_and_no_later_one(client, person):
    cluster = proposed()
    person(role=Role.OPERATOR)
    asked = Approval.objects.get()
    make = lambda: links.make(  # noqa: E731
        "approve", f"approval:{asked.pk}", person="ana", now=datetime.now(UTC), life=HOUR
    ).removeprefix("http://127.0.0.1:8000")
    first, stale = make(), make()
    assert "stop attempt 1 on n01, n02" in client.get(first).text.lower()
    assert "approved" in client.post(first).text
    assert cluster.execution().approved_by == "ana"
    assert client.post(stale).status_code == 404


def test_a_reason_typed_behind_a_link_is_kept(client, person):
    cluster = proposed()
    person(role=Role.OPERATOR)
    subject = f"approval:{Approval.objects.get().pk}"
    address = links.make("reject", subject, person="ana", now=datetime.now(UTC), life=HOUR)
    client.post(address.removeprefix("http://127.0.0.1:8000"), {"why": f" maintenance at four{'.' * 3000}"})
    assert cluster.execution().state == "rejected"
    assert len(Approval.objects.get().answers[0]["why"]) == 2000
    assert "maintenance at four" in cluster.execution().outcome
