"""The pages of the runbooks tell what is in force, what is broken, and what a past incident would get."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from controlplane.domain.recovery.action import Kind, Param
from controlplane.domain.recovery.catalog import Catalog
from controlplane.domain.recovery.document import Problem
from controlplane.runbooks import modes, registry
from controlplane.runbooks.definitions import keep
from controlplane.runbooks.models import Definition, Execution, StepRun
from controlplane.web.present import runbook as present
from tests.web.world import build, person

pytestmark = pytest.mark.django_db
NAME = "restart-after-crash"


@pytest.fixture
def world():
    return build()


@pytest.fixture
def page(client, world):
    client.force_login(person())

    def get(path, status=200):
        answer = client.get(path)
        assert answer.status_code == status, answer.content[:2000]
        return answer.content.decode()

    return get


def _ended(world, state, seconds, key):
    made = Execution.objects.create(
        runbook=NAME, version=1, incident=world.incident, run=world.run, attempt=2, state=state,
        created_at=world.incident.opened_at, finished_at=world.incident.opened_at.replace(microsecond=0), key=key,
    )  # fmt: skip
    Execution.objects.filter(pk=made.pk).update(finished_at=made.created_at + seconds)
    StepRun.objects.create(execution=made, index=0, name="collect", state="done", started_at=made.created_at)


def test_the_list_says_in_words_what_each_runbook_answers(page):
    html = page("/runbooks/")
    assert 'href="/runbooks/restart-after-crash/"' in html
    assert "R-01" in html
    assert "never used" in html
    assert "Nothing by itself: a person starts it" in html
    assert "Nothing: other runbooks use it" in html


def test_the_list_tells_how_the_last_uses_ended_and_how_long_half_of_them_took(page, world):
    for place, (state, seconds) in enumerate((("succeeded", 30), ("succeeded", 50), ("failed", 600))):
        _ended(world, state, timedelta(seconds=seconds), f"used:{place}")
    html = page("/runbooks/")
    assert "2 of 3 succeeded" in html
    assert "half of them within 40 s" in html


def test_a_broken_file_stands_on_top_with_line_and_reason_and_hostile_text_is_shown_as_text(page, monkeypatch):
    found = registry.loaded()
    problems = {"/etc/mine/<b>.yaml": [Problem(7, "steps[1].do", "no action is called <script>")]}
    monkeypatch.setattr(registry, "loaded", lambda: registry.Loaded(found.catalog, problems))
    html = page("/runbooks/")
    assert "Line 7:" in html
    assert "no action is called &lt;script&gt;" in html
    assert "Nothing of it is in force" in html
    assert html.index("cannot be used") < html.index("Runbooks in force")


def test_without_any_runbook_the_list_says_where_they_come_from(page, monkeypatch):
    monkeypatch.setattr(registry, "loaded", lambda: registry.Loaded(Catalog({}), {}))
    assert "No runbook is in force" in page("/runbooks/")


def test_a_definition_tells_trigger_limits_steps_and_its_file(page):
    html = page(f"/runbooks/{NAME}/")
    assert "the run trains no more" in html
    assert "launch after launch fails without new durable progress" in html
    assert "Up to 1 min, 2 retries" in html
    assert "<code>runbook: restart-after-crash</code>" in html
    assert "None of its own." in html


def test_the_history_shows_what_each_version_changed(page):
    runbook = registry.runbook(NAME)
    keep(runbook, datetime(2026, 11, 30, tzinfo=UTC))
    old = runbook.text.replace(f"version: {runbook.version}", "version: 999")
    Definition.objects.create(
        digest="0" * 16, runbook=NAME, version=1, text=old, kept_at=datetime(2026, 11, 1, tzinfo=UTC),
        documents={**registry.texts(runbook), runbook.source: old},
    )  # fmt: skip
    html = page(f"/runbooks/{NAME}/")
    assert '<li class="removed"><span class="sr">removed: </span><code>version: 999</code>' in html
    assert f'<li class="added"><span class="sr">added: </span><code>version: {runbook.version}</code>' in html
    assert "The oldest that is kept." in html


def test_a_runbook_whose_file_is_gone_is_shown_as_it_was_last_used(page, monkeypatch):
    keep(registry.runbook(NAME), datetime(2026, 11, 30, tzinfo=UTC))
    monkeypatch.setattr(registry, "catalog", lambda: Catalog({}))
    assert "Its file is gone" in page(f"/runbooks/{NAME}/")
    page("/runbooks/never-was/", 404)


def test_a_trial_on_a_past_incident_says_which_runbook_would_answer_and_touches_nothing(page, world):
    before = Execution.objects.count()
    html = page(f"/runbooks/{NAME}/?incident={world.incident.pk}")
    assert "Not this one; it does not answer hang: Recover from a hang would answer." in html
    html = page(f"/runbooks/recover-hang/?incident={world.incident.pk}")
    assert "It would start at once." in html
    assert "Stop what is left of attempt 2" in html
    assert Execution.objects.count() == before


def test_a_trial_tells_each_condition_that_did_not_hold(page, world):
    world.incident.findings.update(klass="loss_anomaly", severity="warning")
    html = page(f"/runbooks/roll-back/?incident={world.incident.pk}")
    assert '<span class="sr">does not hold:</span></span> Its severity is critical' in html


@pytest.mark.parametrize(("wanted", "status"), [("12a", 400), ("9" * 20, 400), ("999999", 404)])
def test_a_trial_wants_the_number_of_an_incident(page, wanted, status):
    assert 'href="/incidents/"' in page(f"/runbooks/{NAME}/?incident={wanted}", status)


def test_limits_and_lengths_are_told_in_words():
    own = present.Limits(uses=3, uses_s=86_400, nodes=1, spares=2)
    assert present.limits(own) == [
        "at most 3 uses on one run within 1 d", "at most 1 node left out by one execution",
        "at least 2 spares free afterwards",
    ]  # fmt: skip
    assert [present.length(one) for one in (90, 5400, 3600, 0.5)] == ["90 s", "90 min", "1 h", "0.5 s"]


def _by_hand(monkeypatch):
    about = Param(kind=Kind.TEXT, about="what is changed", required=True)
    one = replace(registry.runbook("roll-back"), start={"change": about})
    monkeypatch.setattr(registry, "catalog", lambda: Catalog({"roll-back": one}))


def test_an_operator_starts_a_runbook_by_hand_with_what_its_file_asks_for(client, page, world, monkeypatch):
    _by_hand(monkeypatch)
    Execution.objects.all().delete()
    html = page("/runbooks/roll-back/")
    assert "What is changed" in html
    form = {"run": world.run.name, "input.change": "new firmware"}
    answer = client.post("/runbooks/roll-back/start/", form)
    made = Execution.objects.get()
    assert answer["Location"] == f"/executions/{made.pk}/"
    assert (made.approved_by, made.context["change"]) == ("ana", "new firmware")


def test_what_is_missing_at_a_start_is_named_beside_the_form(client, page, world, monkeypatch):
    _by_hand(monkeypatch)
    answer = client.post("/runbooks/roll-back/start/", {"run": world.run.name})
    assert answer.status_code == 400
    assert "Change: is needed: what is changed" in answer.content.decode()


def test_a_responder_sees_which_role_a_start_needs(client, world, monkeypatch):
    _by_hand(monkeypatch)
    client.force_login(person("rea", "responder"))
    assert "needs the role operator" in client.get("/runbooks/roll-back/").content.decode()
    assert client.post("/runbooks/roll-back/start/", {"run": world.run.name}).status_code == 403


def test_a_question_of_a_runbook_is_shown_with_its_answers(page):
    html = page("/runbooks/planned-change/")
    assert "answers: go on / leave it stopped" in html
    assert html.index("Start it by hand") < html.index("What it answers")


def test_what_nobody_starts_by_hand_offers_no_form(page):
    assert "Start it by hand" not in page(f"/runbooks/{NAME}/")


def test_the_mode_tells_where_a_person_holds_a_runbook_back(page, world):
    modes.set_mode(NAME, world.run, "ask", "bo", world.now)
    assert "ask on llama-70b-v3, by bo" in page("/runbooks/")
    assert "Held to ask on llama-70b-v3, by bo." in page(f"/runbooks/{NAME}/")
