"""The page of an incident's replay: what today's rules would have done, and how one asks."""

from datetime import timedelta

import pytest

from controlplane.incidents.models import Incident
from controlplane.replay.models import Rerun, RerunState
from controlplane.web.present import rerun as present
from tests.replay.nights import BEGAN, a_crash
from tests.web.world import person

pytestmark = pytest.mark.django_db
ZERO_T = 1800.0


@pytest.fixture
def incident():
    found = a_crash()
    Incident.objects.update(blamed=[{"entity": "node:n1", "score": 5.1, "margin": 3.0}])
    found.refresh_from_db()
    return found


@pytest.fixture
def page(client, incident):
    client.force_login(person())
    return client


def path(incident):
    return f"/incidents/{incident.pk}/replay/"


def rerun(incident, state=RerunState.DONE, /, **more):
    since = incident.began_at - timedelta(seconds=ZERO_T)
    return Rerun.objects.create(
        incident=incident, asked_by="ana", asked_at=BEGAN, state=state, since=since, until=BEGAN, **more
    )


def a_report(*incidents, actions=()):
    return {"incidents": list(incidents), "actions": list(actions), "accounting": {}, "fleet": {}}


def found(klass="crash", /, opened=60.0, confirmed=61.0, run="demo", blamed="node:n1", **more):
    return {
        "class": klass, "run": run, "opened_t": ZERO_T + opened, "resolved_t": None, "severity": "critical",
        "confirmed_t": None if confirmed is None else ZERO_T + confirmed, "title": f"{klass} of {run}",
        "blamed": [{"entity": blamed, "score": 5.0, "margin": 3.0}] if blamed else [], **more,
    }  # fmt: skip


REPLACED = {"t": 1, "do": "replace", "node": "n07", "with": "s0", "incident": 0}
RESTARTED = {"t": ZERO_T + 62, "do": "restart", "run": "demo", "step": 0, "incident": 0}


def shown(page, incident, report, **more):
    rerun(incident, report=report, **more)
    return page.get(path(incident)).content.decode()


def sentence(incident, *incidents, actions=(RESTARTED,)):
    report = a_report(*incidents, actions=actions)
    was = present.happened(incident, incident.acts.all())
    place = present.matching(report, "demo", incident.klass, ZERO_T + 60)
    return present.sentence(was, None if place is None else present.replayed(report, place, ZERO_T))


@pytest.mark.parametrize(
    ("told", "actions", "words"),
    [
        ([found()], [RESTARTED], "found and done the same."),
        ([found(confirmed=19)], [RESTARTED], "found it 42 s earlier."),
        ([found(confirmed=400)], [RESTARTED], "found it 5 min later."),
        ([found(confirmed=63)], [RESTARTED], "found and done the same."),
        ([found(confirmed=None)], [RESTARTED], "only suspected it."),
        ([found("hang")], [RESTARTED], "called it hang instead of crash."),
        ([found(blamed="node:n0")], [RESTARTED], "blamed node n0 instead of node n1."),
        ([found(blamed=None)], [RESTARTED], "blamed nobody instead of node n1."),
        ([found()], [], "done nothing."),
        ([found()], [{**RESTARTED, "step": 400}], "acted in another way."),
        ([found()], [{**RESTARTED, "proposed": True}], "acted in another way."),
        ([found(confirmed=19)], [{**RESTARTED, "exclude": ["n07"]}], "found it 42 s earlier and left out n07."),
        (
            [found()],
            [RESTARTED, REPLACED],
            "left out n07.",
        ),
        ([], [], "found nothing here."),
        ([found(run="other")], [], "found nothing here."),
        ([found(opened=-1700, resolved_t=ZERO_T - 1500)], [], "found nothing here."),
    ],
)
def test_one_sentence_says_what_differs(incident, told, actions, words):
    title = sentence(incident, *told, actions=actions)
    assert title.startswith("Today's rules would have ")
    assert title.endswith(words)


def test_what_was_kept_in_training_is_told_too(incident):
    incident.acts.update(args={"step": 0, "exclude": ["n07"]})
    assert sentence(incident, found()) == "Today's rules would have kept n07."


def test_the_incident_of_the_same_class_is_compared_and_else_the_nearest(incident):
    report = a_report(found("blind", opened=61), found("crash", opened=300), found("hang", opened=70))
    assert present.matching(report, "demo", "crash", ZERO_T + 60) == 1
    assert present.matching(report, "demo", "node_lost", ZERO_T + 60) == 0


def test_the_page_shows_both_sides_the_differences_first(page, incident):
    report = a_report(found("blind", opened=-30), found("crash", confirmed=19), actions=[{**RESTARTED, "incident": 1}])
    html = shown(page, incident, report, overrides={"silence_s": 20}, events=46)
    assert "Today&#x27;s rules with silence_s=20 would have found it 42 s earlier." in html
    assert html.index("After 19 s") < html.index("Called")
    assert html.count("differs") == 1
    assert "Restart from the beginning (after 62 s)" in html
    assert "Also found in that time" in html
    assert "Blind of demo" in html
    assert "46 events" in html


def test_what_a_replay_tells_is_shown_as_text(page, incident):
    html = shown(page, incident, a_report(found(opened=9000, title="<script>x</script>")))
    assert "<script>x" not in html
    assert "&lt;script&gt;x" in html


@pytest.mark.parametrize("report", [{}, {"incidents": [1, {"run": "demo", "blamed": 3}], "actions": "x"}, None])
def test_a_report_of_another_form_breaks_no_page(page, incident, report):
    assert "Today&#x27;s rules would have" in shown(page, incident, report)


def test_without_a_replay_the_page_offers_one_and_the_incident_leads_there(page, incident):
    html = page.get(path(incident)).content.decode()
    assert "What would today's rules have done?" in html
    assert "every 2s" not in html
    assert f'href="{path(incident)}"' in page.get(f"/incidents/{incident.pk}/").content.decode()


@pytest.mark.parametrize("state", [RerunState.QUEUED, RerunState.RUNNING])
def test_while_one_is_under_way_the_page_asks_again_and_offers_no_second(page, incident, state):
    rerun(incident, state, started_at=BEGAN)
    html = page.get(path(incident)).content.decode()
    assert 'hx-trigger="every 2s"' in html
    assert "Look again" in html
    assert "<textarea" not in html


def test_a_failed_one_says_why_and_may_be_repeated(page, incident):
    rerun(incident, RerunState.FAILED, why="the replay took longer than 600 s")
    html = page.get(path(incident)).content.decode()
    assert "The replay took longer than 600 s." in html
    assert "<textarea" in html


def test_an_operator_asks_with_settings(page, incident):
    answer = page.post(
        path(incident), {"settings": " silence_s = 60 \n\nmodes.D-04=off\nmode=ask\ndeclared_step_s=none"}
    )
    assert (answer.status_code, answer["Location"]) == (302, path(incident))
    row = Rerun.objects.get()
    assert row.overrides == {"silence_s": 60, "modes": {"D-04": "off"}, "mode": "ask", "declared_step_s": None}
    assert (row.state, row.asked_by) == (RerunState.QUEUED, "ana")


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("hang_k=fast", "Hang_k: must be a number"),
        ("hang_k=900", "Hang_k: must be between 1.5 and 20"),
        ("hang_k", "Settings: want name=value on each line"),
        ("hang_k=nan", "Hang_k: must be a finite number"),
        ("modes=off", "Modes: "),
        ("\n".join(["hang_k=3"] * 51), "Settings: must be at most 50 lines"),
    ],
)
def test_a_wrong_setting_is_named_and_what_was_typed_stays(page, incident, typed, words):
    answer = page.post(path(incident), {"settings": typed})
    html = answer.content.decode()
    assert answer.status_code == 400
    assert words in html
    assert typed.splitlines()[0] in html
    assert not Rerun.objects.exists()


def test_asking_twice_says_that_one_is_under_way(page, incident):
    page.post(path(incident))
    answer = page.post(path(incident))
    assert answer.status_code == 409
    assert "A replay of this incident is under way" in answer.content.decode()


def test_a_viewer_reads_and_does_not_ask(client, incident):
    client.force_login(person("vera", "viewer"))
    rerun(incident, report=a_report(found(), actions=[RESTARTED]))
    html = client.get(path(incident)).content.decode()
    assert "found and done the same" in html
    assert "needs the role operator" in html
    assert client.post(path(incident)).status_code == 403
    assert Rerun.objects.count() == 1


def test_an_incident_of_the_fleet_offers_nothing(page):
    of_fleet = Incident.objects.create(klass="blind", title="no agent reports", began_at=BEGAN, opened_at=BEGAN)
    html = page.get(path(of_fleet)).content.decode()
    assert "Only what happened to a run can be replayed" in html
    assert page.post(path(of_fleet)).status_code == 409
    assert path(of_fleet) not in page.get(f"/incidents/{of_fleet.pk}/").content.decode()


def test_programs_ask_and_read_as_well(page, incident):
    api = f"/api/v1/incidents/{incident.pk}/replay"
    assert page.get(api).status_code == 404
    wrong = page.post(api, {"settings": {"hang_k": "fast"}}, content_type="application/json")
    assert (wrong.status_code, wrong.json()["field"]) == (400, "hang_k")
    asked = page.post(api, {"settings": {"silence_s": 60}}, content_type="application/json")
    assert (asked.status_code, asked.json()["state"]) == (202, "queued")
    assert page.post(api, content_type="application/json").status_code == 409
    assert page.get(api).json()["settings"] == {"silence_s": 60}
