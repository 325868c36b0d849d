from datetime import timedelta

import pytest

from controlplane.chronicle.models import Entry
from controlplane.domain.findings import Evidence, Finding, Stage
from controlplane.incidents import actions, models, queries
from controlplane.runs import actions as runs
from controlplane.runs.book import Book
from controlplane.runs.models import Attempt, Run
from tests.incidents.conftest import NOW

pytestmark = pytest.mark.django_db


def finding(
    klass="crash", stage="confirmed", *, key=None, attempt=1, entity="rank:2", weight=3.0, run="demo", **words,
):  # fmt: skip
    at = NOW.timestamp()
    line = Evidence(at=at, entity=entity, weight=weight, text=f"{entity} did it")
    return Finding(
        key=key or f"{run}/{attempt}/{klass}", detector="D-03", klass=klass, stage=Stage(stage), entity=entity,
        began=at - 5, at=at, run=run, attempt=attempt, evidence=(line,),
        **{"facts": {"fingerprint": klass}, "sentence": f"{entity} shows {klass}", **words},
    )  # fmt: skip


def record(run, *findings, now=NOW):
    return actions.record(run, findings, now)


def mitigate(incident):
    book = Book(NOW)
    actions.mitigate(incident, "It goes on.", NOW, book=book)
    book.write()


def told(incident):
    return list(Entry.objects.filter(stream__name=f"incident:{incident.pk}").values_list("kind", flat=True))


def test_a_confirmed_finding_opens_an_incident_with_its_blame_and_tells_it(run):
    [incident] = record(run, finding())
    assert (incident.klass, incident.attempt, incident.state) == ("crash", 1, "open")
    assert incident.confirmed_at == NOW
    assert incident.began_at == NOW - timedelta(seconds=5)
    assert incident.blamed == [{"entity": "rank:2", "score": 3.0, "margin": 3.0}]
    assert told(incident) == ["opened", "finding"]
    assert Entry.objects.filter(stream__name="run:demo", kind="opened").exists()


def test_the_same_finding_again_changes_and_tells_nothing(run):
    [incident] = record(run, finding())
    before = told(incident)
    assert record(run, finding(), now=NOW + timedelta(seconds=9)) == [incident]
    assert told(incident) == before
    assert models.Finding.objects.count() == 1


@pytest.mark.parametrize("mode", ["act", "observe"])
def test_findings_with_long_names_in_their_keys_are_kept_and_told_apart(run, mode):
    path = "/lustre/projects/" + 15 * "a-long-folder/"
    disks = [finding("disk_full", key=f"demo/1/room/{path}{name}", mode=mode) for name in ("home", "scratch")]
    for _ in range(2):
        record(run, *disks)
    kept = models.Finding if mode == "act" else models.Observation
    assert kept.objects.count() == 2


def test_a_suspicion_that_is_confirmed_is_told_once(run):
    [incident] = record(run, finding("hang", "suspect"))
    assert incident.confirmed_at is None
    record(run, finding("hang"), finding("hang"))
    incident.refresh_from_db()
    assert incident.confirmed_at == NOW
    assert told(incident).count("confirmed") == 1


def test_a_suspicion_that_clears_resolves_the_incident(run):
    [incident] = record(run, finding("hang", "suspect"))
    record(run, finding("hang", "cleared"))
    incident.refresh_from_db()
    assert incident.state == "resolved"
    assert told(incident)[-1] == "resolved"


def test_what_clears_after_we_laid_hands_on_the_attempt_is_for_us_to_close(run):
    [incident] = record(run, finding("hang", "suspect"))
    runs.mark_stopping(Attempt.objects.get(), NOW)
    record(run, finding("hang", "cleared"))
    incident.refresh_from_db()
    assert incident.state == "open"


def test_clearing_what_was_never_told_opens_nothing(run):
    assert record(run, finding("hang", "cleared")) == []
    assert not models.Incident.objects.exists()


def test_the_same_suspicion_after_it_was_resolved_is_a_new_incident(run):
    [first] = record(run, finding("hang", "suspect"))
    record(run, finding("hang", "cleared"))
    [second] = record(run, finding("hang", "suspect"))
    assert second != first
    assert models.Incident.objects.count() == 2


def test_the_class_rises_with_a_second_finding_of_the_same_trouble(run):
    [incident] = record(run, finding())
    [again] = record(run, finding("node_lost", entity="node:n2", weight=5.0, key="demo/1/node_lost/n2"))
    assert again == incident
    incident.refresh_from_db()
    assert incident.klass == "node_lost"
    assert "risen" in told(incident)
    assert queries.diagnosis(incident, NOW, attempt=1).act_on == "n2"


def test_what_was_known_of_an_earlier_attempt_condemns_no_later_one(run):
    [incident] = record(run, finding("node_lost", entity="node:n2", weight=5.0))
    record(run, finding("hang", "suspect", attempt=2))
    assert queries.diagnosis(incident, NOW, attempt=1).confirmed
    assert not queries.diagnosis(incident, NOW, attempt=2).confirmed
    assert queries.diagnosis(incident, NOW, attempt=2).act_on is None


def test_the_trouble_of_a_later_attempt_after_mitigation_is_a_new_incident(run):
    [incident] = record(run, finding())
    mitigate(incident)
    [other] = record(run, finding("hang", attempt=2))
    assert other != incident


def test_the_same_failure_after_mitigation_opens_the_incident_again(run):
    [incident] = record(run, finding())
    mitigate(incident)
    assert record(run, finding(attempt=2)) == [incident]
    incident.refresh_from_db()
    assert (incident.state, incident.mitigated_at, incident.attempt) == ("open", None, 2)
    assert "risen" in told(incident)


def test_findings_of_the_fleet_belong_to_no_run(run):
    [incident] = actions.record(None, [finding("correlated_loss", run=None, attempt=None, entity="platform")], NOW)
    assert incident.run is None
    assert Entry.objects.filter(stream__name="fleet", kind="opened").exists()


def test_two_runs_never_share_a_finding(run):
    other = runs.create_run("other", launcher="head", nodes_wanted=2, now=NOW)
    [first] = record(run, finding(key="same"))
    [second] = actions.record(other, [finding(key="same", run="other")], NOW)
    assert first != second


def test_an_incident_that_the_run_left_behind_without_a_runbook_is_mitigated_then_resolved(run):
    [incident] = record(run, finding())
    first = Attempt.objects.get()
    runs.close_attempt(first, "failed", NOW)
    attempt = runs.open_attempt(run, ["n1", "n2"], runs.Resume(), NOW)
    Attempt.objects.filter(pk=attempt.pk).update(beyond_at=NOW)
    settled(run, NOW + timedelta(seconds=30))
    incident.refresh_from_db()
    assert incident.state == "open"
    settled(run, NOW + timedelta(seconds=61))
    incident.refresh_from_db()
    assert incident.state == "mitigated"


def test_a_completed_run_leaves_no_incident_open(run):
    [incident] = record(run, finding())
    Run.objects.update(state="completed")
    settled(Run.objects.get(), NOW)
    incident.refresh_from_db()
    assert incident.state == "resolved"


def settled(run, now):
    book = Book(now)
    actions.settle(run, now, book=book)
    book.write()
