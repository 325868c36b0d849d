"""The page about notifications: whom to tell, whether it works, and who may change it."""

import html
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from django.conf import settings

from controlplane.access.models import Role
from controlplane.incidents import actions as incidents
from controlplane.incidents.models import Incident, Silence
from controlplane.notify import actions, planning
from controlplane.notify.models import DeadMan, Rule, Transport, Window
from controlplane.runbooks import answering, approvals, wide_undo
from controlplane.runbooks.models import Execution, StepRun
from controlplane.web.read import telling
from tests.web.world import build, person

pytestmark = pytest.mark.django_db

PAGE = "/settings/notifications/"


@pytest.fixture
def admin(client):
    client.force_login(person("root", Role.ADMIN))
    return client


@pytest.fixture
def hook(settings):
    """Give the address of a receiver that takes everything."""
    settings.NOTIFY_ALLOW = ["127.0.0.1"]

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(202)
            self.end_headers()
            self.wfile.write(b"queued as 7")

        def log_message(self, *_):
            """Say nothing."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/secret-path"
    server.shutdown()
    server.server_close()


def post(client, do, status=302, **form):
    answer = client.post(PAGE, {"do": do, **form})
    assert answer.status_code == status, answer.content.decode()[:2000]
    return html.unescape(client.get(PAGE).content.decode() if status == 302 else answer.content.decode())


def test_it_says_plainly_that_nobody_would_be_called(admin):
    text = admin.get(PAGE).content.decode()
    assert "Nobody will be called: there is no transport yet." in text
    assert "Nobody outside would notice that Middlewatch is down." in text


def test_a_transport_is_added_tested_named_in_a_rule_and_called(admin, hook):
    post(admin, "add-transport", kind="webhook", name="ana", url=hook, person="root")
    ana = Transport.objects.get()
    shown = post(admin, "test", id=ana.pk)
    assert "ana took the test: 202 queued as 7." in shown
    assert "secret-path" not in shown
    shown = post(
        admin, "add-rule", name="nights", severity="critical", takes="loud", after_1="0", to_1=str(ana.pk),
        after_2="10", to_2=str(ana.pk),
    )  # fmt: skip
    assert "at once ana; 10 min later, unless acknowledged, ana" in shown
    assert "Somebody is called at every hour" in shown


def test_what_does_not_fit_is_said_beside_what_was_typed_but_for_secrets(admin):
    text = post(admin, "add-transport", 400, kind="email", name="mail", host="mail.example.org", port="0",
                sender="a@b.example", recipients="c@d.example", password="hush")  # fmt: skip
    assert "Port: must be a number from 1 to 65535" in text
    assert 'value="mail.example.org"' in text
    assert "hush" not in text
    assert Transport.objects.count() == 0


def test_a_rule_that_relies_on_a_transport_keeps_it(admin, hook):
    post(admin, "add-transport", kind="webhook", name="ana", url=hook)
    ana = Transport.objects.get()
    post(admin, "add-rule", name="nights", severity="info", takes="both", to_1=str(ana.pk))
    assert "relies on ana" in post(admin, "remove-transport", 409, id=ana.pk)
    post(admin, "switch-rule", id=Rule.objects.get().pk, to="off")
    post(admin, "remove-rule", id=Rule.objects.get().pk)
    post(admin, "remove-transport", id=ana.pk)
    assert Transport.objects.count() == 0


def test_silences_and_maintenance_are_planned_and_shown_with_their_end(admin):
    build()
    post(admin, "silence", run="vision-7b", minutes="30")
    text = post(admin, "open-window", runs="llama-70b-v3", minutes="60", why="new switches")
    assert "Run vision-7b is silenced" in text
    assert "Maintenance of llama-70b-v3" in text
    assert "new switches" in text
    post(admin, "close-window", id=Window.objects.get().pk)
    assert Silence.objects.get().by == "root"
    assert "must be above 0 and at most" in post(admin, "open-window", 400, minutes="9999999")
    assert "begins_at" in post(admin, "open-window", 400, minutes="5", begins_at="never").lower()


def test_an_outside_address_hears_from_us(admin):
    text = post(admin, "add-sign", name="world", url="https://ping.example.org/secret-id", every_s="30")
    assert "https://ping.example.org/…" in text
    assert "secret-id" not in text
    post(admin, "remove-sign", id=DeadMan.objects.get().pk)
    assert "every_s" in post(admin, "add-sign", 400, name="w", url="https://a.example", every_s="1").lower()


@pytest.mark.parametrize(
    ("role", "do", "status"),
    [("viewer", "silence", 403), ("responder", "silence", 302), ("responder", "open-window", 403),
     ("operator", "open-window", 302), ("operator", "add-transport", 403), ("operator", "test", 403)],
)  # fmt: skip
def test_each_role_does_what_it_may_and_sees_what_it_would_need(client, role, do, status):
    client.force_login(person("ana", role))
    assert client.post(PAGE, {"do": do, "minutes": "5"}).status_code == status
    if role != "operator":
        assert "needs the role" in client.get(PAGE).content.decode()


@pytest.mark.parametrize("form", [{"do": "fly"}, {"do": "test", "id": "x"}, {"do": "test", "id": "9" * 30}, {}])
def test_nonsense_is_refused(admin, form):
    assert admin.post(PAGE, form).status_code == 400


def test_an_incident_page_shows_who_was_told_when_and_with_what_proof(admin):
    incident = build().incident
    text = html.unescape(admin.get(f"/incidents/{incident.pk}/").content.decode())
    assert "ana’s telephone: told by step 1 of rule nights" in text
    assert "202 queued" in text
    assert "Rank 412 hung on n04" in admin.get(PAGE).content.decode()


def test_an_incident_page_says_why_nobody_was_told(admin):
    past = Incident.objects.exclude(pk=build().incident.pk).first()
    path = f"/incidents/{past.pk}/"
    assert "Nobody had to be told." in admin.get(path).content.decode()
    call = {"run": "", "klass": "hang", "severity": "warning", "loud": True, "key": "k", "now": past.opened_at}
    actions.call(f"incident:{past.pk}", **call)
    planning.plan(past.opened_at)
    assert "No rule wanted this call." in admin.get(path).content.decode()


def test_a_message_leads_to_where_what_was_done_is_taken_back_or_what_is_asked_is_answered(admin, monkeypatch):
    world = build()

    def links():
        return telling.incident(f"incident:{world.incident.pk}", world.now).links

    page = f"{settings.BASE_URL}/executions/{world.execution.pk}/"
    steps = list(world.execution.steps.all())
    world.execution.steps.all().delete()
    assert links() == ()
    StepRun.objects.bulk_create(steps)
    assert links() == (("Take it back", f"{page}#take-back"),)
    assert 'id="take-back"' in admin.get(page).content.decode()
    monkeypatch.setattr(wide_undo, "nodes", lambda *_: ["n01"])
    monkeypatch.setattr(wide_undo, "is_wide", lambda *_: True)
    wide_undo.agree(Execution.objects.get(pk=world.execution.pk), "ben", world.now)
    assert links() == (("Agree to take it back, or not", f"{page}#take-back"),)
    monkeypatch.setattr(answering, "question", lambda _: "which?")
    assert links() == (("Answer", f"{page}#approval"),)


def test_a_message_says_what_the_page_of_the_incident_says(admin):
    world = build()
    told = telling.incident(f"incident:{world.incident.pk}", world.now)
    since = f"since {world.incident.began_at:%H:%M} UTC"
    assert told.sentence.startswith(f"Run llama-70b-v3 is stopped {since}: Rank 412 hung on n04")
    assert (told.run, told.over) == ("llama-70b-v3", False)
    assert "idle" in told.cost
    assert told.doing
    assert told.url.endswith(f"/incidents/{world.incident.pk}/")
    assert told.asks == ()
    Execution.objects.update(state="proposed")
    asked = approvals.ask(Execution.objects.get(pk=world.execution.pk), "it asks", world.now)
    offered = telling.incident(f"incident:{world.incident.pk}", world.now).asks
    assert [(one.word, one.subject) for one in offered] == [
        ("Approve", f"approval:{asked.pk}"), ("Reject", f"approval:{asked.pk}"),
    ]  # fmt: skip
    incidents.acknowledge(world.incident, "root", world.now)
    incidents.resolve_by_hand(world.incident, "root", world.now)
    over = telling.incident(f"incident:{world.incident.pk}", world.now)
    assert (over.over, over.acknowledged) == (True, "acknowledged by root")
    assert over.sentence == "Run llama-70b-v3 is no longer in this incident"
