from datetime import timedelta

import pytest

from controlplane.chronicle import actions as chronicle
from controlplane.chronicle import queries as told
from controlplane.incidents.models import Finding, Incident
from tests.api.conftest import NOW


@pytest.fixture
def chronicled(incident):
    for turn, sentence in enumerate(["Rank 1 died of signal 9.", "The stacks were collected.", "Launched."]):
        at = NOW + timedelta(seconds=turn)
        chronicle.tell(f"incident:{incident.pk}", "action", sentence, at=at, now=at, actor_kind="runbook")
    return incident


def test_an_incident_is_shown_with_its_findings_and_executions(api, incident, execution):
    Finding.objects.create(
        incident=incident, key="k", detector="D-07", klass="crash", stage="confirmed", entity="rank:1", began_at=NOW,
        found_at=NOW, facts={"signal": 9},
    )  # fmt: skip
    shown = api.get(f"incidents/{incident.pk}").json()
    assert (shown["class"], shown["run"], shown["executions"]) == ("crash", "demo", [execution.pk])
    assert [(finding["class"], finding["facts"]) for finding in shown["findings"]] == [("crash", {"signal": 9})]


def test_incidents_are_listed_newest_first_and_by_state_and_run(api, incident):
    of_fleet = Incident.objects.create(klass="blind", title="No agent reports", began_at=NOW, opened_at=NOW)
    closed = Incident.objects.create(klass="hang", title="Hang", began_at=NOW, opened_at=NOW, state="resolved")
    ids = lambda **query: [item["id"] for item in api.get("incidents", **query).json()["items"]]  # noqa: E731
    assert ids() == [closed.pk, of_fleet.pk, incident.pk]
    assert ids(state="resolved") == [closed.pk]
    assert ids(run="demo") == [incident.pk]
    assert ids(after=of_fleet.pk) == [incident.pk]
    assert api.get("incidents", state="closed").json()["field"] == "state"


def test_a_chronicle_is_read_from_the_number_that_is_known(api, chronicled):
    page = api.get(f"incidents/{chronicled.pk}/chronicle", limit=2).json()
    assert [item["sentence"] for item in page["items"]] == ["Rank 1 died of signal 9.", "The stacks were collected."]
    more = api.get(f"incidents/{chronicled.pk}/chronicle", after=page["next"]).json()
    assert ([item["number"] for item in more["items"]], more["next"]) == ([3], None)


def test_a_chronicle_is_written_down_as_markdown(api, chronicled):
    answer = api.get(f"incidents/{chronicled.pk}/chronicle.md")
    assert answer.headers["content-type"] == "text/markdown; charset=utf-8"
    for line in (
        f"# Incident {chronicled.pk}: Rank 1 of demo died",
        "- **Class:** crash",
        "- **Detected:** 2026-11-29 02:00:00, 0.2 s after it began",
        "- **Steps lost:** 12 \\(measured\\)",
        "- **Time lost:** 9.25 s \\(measured\\)",
        "- **Suspect:** node n02, score 5.1, margin 3.0",
        "- **Root cause:** unknown",
        "- **02:00:01**, 2: The stacks were collected.",
    ):
        assert line in answer.text.splitlines()


def test_a_person_acknowledges_once(api, incident):
    shown = api.post(f"incidents/{incident.pk}/acknowledge").json()
    assert shown["acknowledged_by"] == "the-admin"
    assert api.post(f"incidents/{incident.pk}/acknowledge").status_code == 409
    assert [entry.kind for entry in told.entries(f"incident:{incident.pk}")] == ["acknowledge"]


def test_a_note_is_signed(api, incident):
    entry = api.post(f"incidents/{incident.pk}/note", text="It was the **new** driver.")
    assert entry.status_code == 201
    assert (entry.json()["kind"], entry.json()["actor"], entry.json()["sentence"]) == (
        "note", "the-admin", "It was the **new** driver.",
    )  # fmt: skip


def test_a_note_that_cannot_be_is_refused(api, incident):
    for text in ("  ", "x" * 100_000):
        assert api.post(f"incidents/{incident.pk}/note", text=text).json()["field"] == "text"


def test_an_entry_is_corrected_and_stays(api, chronicled):
    path = f"incidents/{chronicled.pk}/chronicle/1/correct"
    entry = api.post(path, sentence="It was signal 15.").json()
    assert (entry["number"], entry["kind"], entry["corrects"]) == (4, "correction", 1)
    assert told.entry(f"incident:{chronicled.pk}", 1).sentence == "Rank 1 died of signal 9."
    assert api.post(f"incidents/{chronicled.pk}/chronicle/99/correct", sentence="x").status_code == 404


def test_a_person_closes_an_incident_by_word_and_names_the_cause(api, incident):
    assert api.post(f"incidents/{incident.pk}/resolve", reason="a loose cable").json()["state"] == "resolved"
    sentences = [entry.sentence for entry in told.entries(f"incident:{incident.pk}")]
    assert "the-admin resolved the incident. Cause: a loose cable" in sentences
    assert api.post(f"incidents/{incident.pk}/resolve").status_code == 409
