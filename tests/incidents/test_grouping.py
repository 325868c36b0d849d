"""What becomes one incident, what stays apart, and what is only written down."""

from datetime import timedelta

import pytest

from controlplane.chronicle.models import Entry
from controlplane.incidents import actions, models, queries
from controlplane.incidents.ending import QUIET_FOR
from controlplane.runs import actions as runs
from controlplane.runs.models import Attempt
from tests.incidents.conftest import NOW
from tests.incidents.test_record import finding, record, settled

pytestmark = pytest.mark.django_db


def state_of(incident):
    return models.Incident.objects.get(pk=incident.pk).state


def test_a_cause_found_in_the_same_look_opens_the_incident_and_its_symptoms_join(run):
    found = record(run, finding("hang"), finding("gpu_fault", entity="node:n1", weight=6.0))
    assert [item.klass for item in found] == ["gpu_fault"]
    assert models.Incident.objects.count() == 1


def test_advice_ends_when_it_clears_although_the_attempt_was_stopped(run):
    [slow] = record(run, finding("fail_slow", severity="warning"))
    [crash] = record(run, finding("crash"))
    assert slow != crash
    runs.mark_stopping(Attempt.objects.get(), NOW)
    record(run, finding("fail_slow", "cleared"))
    assert (state_of(slow), state_of(crash)) == ("resolved", "open")


def test_what_was_confirmed_and_is_over_keeps_its_name_and_its_evidence(run):
    [incident] = record(run, finding("storage_stall", entity="storage", weight=6.0), finding("crash", weight=4.0))
    record(run, finding("storage_stall", "cleared", entity="storage"))
    incident.refresh_from_db()
    assert (incident.klass, incident.state) == ("storage_stall", "open")
    assert [blame["entity"] for blame in incident.blamed] == ["storage"]
    assert queries.diagnosis(incident, NOW).stands == {"crash"}


def test_a_suspicion_that_went_away_leaves_no_blame(run):
    [incident] = record(run, finding("hang", "suspect", entity="node:n1"))
    record(run, finding("hang", "cleared", entity="node:n1"))
    incident.refresh_from_db()
    assert (incident.state, incident.blamed) == ("resolved", [])


def test_a_poisoned_checkpoint_closes_the_crash_it_explains_and_takes_its_newest_findings(run):
    [crash] = record(run, finding("crash", attempt=1))
    record(run, finding("crash", attempt=2, key="2"))
    [poison] = record(run, finding("checkpoint_poison", attempt=2, entity="checkpoint:300", weight=5.0))
    crash.refresh_from_db()
    assert poison != crash
    assert (crash.state, crash.explained_by, poison.state) == ("resolved", poison, "open")
    assert queries.confirmed_against(crash, 2) is not None
    assert {item.klass for item in poison.findings.all()} == {"checkpoint_poison", "crash"}
    [again] = record(run, finding("crash", attempt=3, key="3"))
    assert again == poison


def test_a_warning_that_grows_into_a_stop_joins_the_incident_about_the_stop(run):
    [warning] = record(run, finding("storage_stall", entity="storage", severity="warning"))
    [crash] = record(run, finding("crash"))
    assert warning != crash
    [grown] = record(run, finding("storage_stall", entity="storage", weight=6.0))
    assert grown == crash
    assert (state_of(warning), grown.klass) == ("resolved", "storage_stall")


def test_what_a_rule_under_observation_says_is_kept_and_changes_nothing(run):
    for _ in range(2):
        assert record(run, finding("gpu_fault", mode="observe", rule="xid-79")) == []
    record(run, finding("gpu_fault", "cleared", mode="observe", rule="xid-79"))
    assert not models.Incident.objects.exists()
    kept = models.Observation.objects.order_by("stage").values_list("rule", "stage")
    assert list(kept) == [("xid-79", "cleared"), ("xid-79", "confirmed")]


def test_a_rule_that_may_only_propose_says_so_in_the_verdict(run):
    [incident] = record(run, finding("gpu_fault", entity="node:n1", weight=6.0, mode="propose", rule="xid-79"))
    assert queries.diagnosis(incident, NOW).mode == "propose"


def come_and_go(run, times, start=NOW):
    for turn in range(times):
        at = start + timedelta(minutes=turn)
        record(run, finding("telemetry_lost", entity="node:n1"), now=at)
        record(run, finding("telemetry_lost", "cleared", entity="node:n1"), now=at + timedelta(seconds=30))
    return start + timedelta(minutes=times - 1, seconds=30)


def test_what_comes_and_goes_stays_open_until_it_is_quiet_and_is_told_once(run):
    last = come_and_go(run, 6)
    incident = models.Incident.objects.order_by("-pk").first()
    assert models.Incident.objects.count() == 3
    assert incident.state == "open"
    assert Entry.objects.filter(sentence__contains="came and went 3 times").count() == 1
    settled(run, last + QUIET_FOR - timedelta(seconds=1))
    assert state_of(incident) == "open"
    settled(run, last + QUIET_FOR)
    assert state_of(incident) == "resolved"


def test_what_comes_and_goes_is_not_closed_while_it_is_there(run):
    last = come_and_go(run, 3)
    record(run, finding("telemetry_lost", entity="node:n1"), now=last + timedelta(minutes=1))
    settled(run, last + 2 * QUIET_FOR)
    assert state_of(models.Incident.objects.order_by("-pk").first()) == "open"


def test_an_incident_in_a_silence_is_recorded_and_quiet_until_it_ends(run):
    actions.silence(run, 60, "ana", NOW)
    [incident] = record(run, finding("hang", "suspect"), now=NOW + timedelta(minutes=1))
    assert incident.quiet
    [incident] = record(run, finding("hang"), now=NOW + timedelta(minutes=61))
    incident.refresh_from_db()
    assert not incident.quiet
    silenced = Entry.objects.filter(sentence__startswith="ana silenced pages about run demo for 1 h, until 20")
    assert set(silenced.values_list("stream__name", flat=True)) == {"run:demo", "fleet"}


def test_a_silence_of_everything_holds_for_each_run_and_one_of_a_run_for_that_run(run):
    other = runs.create_run("other", launcher="head", nodes_wanted=2, now=NOW)
    actions.silence(run, 5, "ana", NOW)
    assert queries.silenced(run, NOW)
    assert not queries.silenced(other, NOW)
    actions.silence(None, 5, "ana", NOW)
    assert queries.silenced(other, NOW)
    assert not queries.silenced(other, NOW + timedelta(minutes=5))


@pytest.mark.parametrize("minutes", [0, -1, actions.MAX_SILENCE_MIN + 1])
def test_a_silence_has_an_end_within_reach(run, minutes):
    with pytest.raises(actions.Invalid) as refusal:
        actions.silence(run, minutes, "ana", NOW)
    assert refusal.value.field == "minutes"


def test_a_long_title_is_cut_between_two_words(run):
    [incident] = record(run, finding(sentence="word " * 200))
    assert incident.title.endswith("word…")
