"""The guards' page, and the kill switch: what it says before it is done, who may, and what every page then shows."""

import re

import pytest
from django.utils import timezone
from django.utils.html import strip_tags

from controlplane.incidents.models import Incident
from controlplane.live import registry as live
from controlplane.runbooks import switches
from controlplane.runbooks.models import RunbookMode, Skip
from controlplane.runs.automation import open_breaker
from controlplane.runs.models import Automation, Run
from controlplane.web.fragments import render_count
from controlplane.web.read import guards as read
from tests.web.world import build, person

pytestmark = pytest.mark.django_db
RUN = "llama-70b-v3"


@pytest.fixture
def world():
    return build()


def _as(client, role):
    client.force_login(person(role, role))
    return client


def _get(client, path, status=200):
    answer = client.get(path)
    assert answer.status_code == status, answer.content[:2000]
    return answer.content.decode()


def _told(html):
    """The text alone, every time of day as `then`."""
    return strip_tags(re.sub("<time.*?</time>", "then", html))


def test_the_page_shows_what_is_left_of_each_budget_in_words(client, world):
    html = _get(_as(client, "viewer"), "/guards/")
    assert "Automation acts inside these guards" in html
    assert "4 of 4 restarts left" in html
    assert 'class="meter"' in html


@pytest.mark.parametrize("path", ["/", f"/runs/{RUN}/", "/quarantine/", "/guards/"])
def test_the_kill_switch_is_one_tap_away_from_every_page(client, world, path):
    html = _get(_as(client, "viewer"), path)
    where = f"/guards/switch/?run={RUN}" if path.startswith("/runs/") else "/guards/switch/"
    assert f'<a class="kill" href="{where}">' in html


def test_the_switch_says_what_it_will_do_and_does_nothing_yet(client, world):
    html = _get(_as(client, "responder"), f"/guards/switch/?run={RUN}")
    assert f"Switch automation off for {RUN}?" in html
    assert "1 execution under way stands still: Restart after a crash on llama-70b-v3." in html
    assert "Training goes on: nothing is stopped." in html
    assert "/guards/switch/?from=llama-70b-v3" in html
    assert not Automation.objects.exclude(off_at=None).exists()


def test_a_responder_switches_off_and_every_page_says_so_in_red(client, world):
    client = _as(client, "responder")
    client.post("/guards/switch/", {"do": "off", "run": "", "why": "<b>odd</b>"})
    html = _get(client, "/runs/")
    assert '<a class="alarm bad" href="/guards/switch/">' in html
    assert "Automation is off everywhere since then, by responder: &lt;b&gt;odd&lt;/b&gt;" in _told(html)
    html = _get(client, "/guards/")
    assert '<h1 id="headline">Automation is off everywhere</h1>' in html
    assert html.count("Automation off</span>") == 3


def test_open_pages_hear_of_the_switch_with_the_count_of_incidents(world):
    switches.off(world.run, "ana", "", world.now)
    content = render_count("", {live.STATE}, None).content
    assert f"Automation is off for {RUN} since then, by ana" in _told(content)
    assert 'id="automation" hx-swap-oob' in content


def test_of_many_runs_those_that_automation_may_not_act_on_stand_first(client, world, monkeypatch):
    monkeypatch.setattr(read, "MAX_RUNS", 1)
    switches.off(Run.objects.get(name="vision-7b"), "ana", "", world.now)
    client = _as(client, "viewer")
    assert 'id="vision-7b"' in _get(client, "/guards/")
    html = _get(client, f"/guards/?run={RUN}")
    assert f'id="{RUN}"' in html
    assert 'id="vision-7b"' not in html


def test_switching_on_asks_what_becomes_of_what_was_found_meanwhile(client, world):
    switches.off(world.run, "ana", "", world.now)
    Incident.objects.filter(pk=world.incident.pk).update(opened_at=timezone.now())
    client = _as(client, "operator")
    html = _get(client, f"/guards/switch/?run={RUN}")
    assert "1 open incident was found meanwhile." in html
    client.post("/guards/switch/", {"do": "on", "run": RUN, "backlog": "skip"})
    assert Skip.objects.count() == 1
    assert not Automation.objects.exclude(off_at=None).exists()


def test_an_open_breaker_is_told_in_amber_and_reset_by_the_same_page(client, world):
    open_breaker(None, "three runbooks failed within an hour", world.now)
    client = _as(client, "operator")
    html = _get(client, "/guards/switch/")
    told = "Automation only proposes everywhere since then, the breaker is open: three runbooks failed within an hour"
    assert told in _told(html)
    assert "Reset the breaker everywhere?" in html
    client.post("/guards/switch/", {"do": "reset", "run": "", "backlog": "process"})
    assert not Automation.objects.exclude(opened_at=None).exists()


def test_who_may_not_sees_the_role_it_needs_and_changes_nothing(client, world):
    client = _as(client, "viewer")
    assert "needs the role responder" in _get(client, "/guards/switch/")
    assert client.post("/guards/switch/", {"do": "off", "run": ""}).status_code == 409
    switches.off(None, "ana", "", world.now)
    assert "needs the role operator" in _get(client, "/guards/switch/")
    client.post("/guards/mode/", {"run": RUN, "mode": "watch"})
    client.post("/guards/runbook-mode/", {"runbook": "roll-back", "run": "", "mode": "ask"})
    assert Run.objects.get(name=RUN).mode == "autopilot"
    assert not RunbookMode.objects.exists()


def test_two_people_who_press_at_once_are_told_who_was_first(client, world):
    switches.off(None, "ana", "", world.now)
    answer = _as(client, "responder").post("/guards/switch/", {"do": "off", "run": ""})
    assert answer.status_code == 409
    assert "off already for all runs" in answer.content.decode()


def test_autopilot_first_shows_what_it_will_be_allowed_to_do(client, world):
    Run.objects.filter(name=RUN).update(mode="ask")
    client = _as(client, "operator")
    html = client.post("/guards/mode/", {"run": RUN, "mode": "autopilot"}).content.decode()
    assert f"Let automation act on {RUN}?" in html
    assert "R-01 Restart after a crash" in html
    assert Run.objects.get(name=RUN).mode == "ask"
    client.post("/guards/mode/", {"run": RUN, "mode": "autopilot", "sure": "yes"})
    assert Run.objects.get(name=RUN).mode == "autopilot"


def test_less_than_autopilot_is_set_at_once(client, world):
    _as(client, "operator").post("/guards/mode/", {"run": RUN, "mode": "watch"})
    assert Run.objects.get(name=RUN).mode == "watch"


def test_a_runbook_is_held_back_on_one_run_and_that_is_taken_back(client, world):
    client = _as(client, "operator")
    form = {"runbook": "roll-back", "run": RUN}
    client.post("/guards/runbook-mode/", {**form, "mode": "ask"})
    html = _get(client, "/guards/")
    assert 'Take back<span class="sr"> Roll back behind the onset of the trouble' in html
    client.post("/guards/runbook-mode/", {**form, "mode": "file"})
    assert not RunbookMode.objects.exists()


@pytest.mark.parametrize(
    ("path", "form"),
    [("switch", {"do": "explode", "run": ""}), ("switch", {"do": "off", "run": "nobody"}), ("mode", {"mode": "watch"})],
)
def test_what_is_not_there_is_not_found(client, world, path, form):
    assert _as(client, "admin").post(f"/guards/{path}/", form).status_code in (303, 404)


def test_a_mode_that_there_is_not_names_the_field(client, world):
    answer = _as(client, "operator").post("/guards/mode/", {"run": RUN, "mode": "wild"})
    assert answer.status_code == 400
    assert "mode: must be one of" in answer.content.decode()
