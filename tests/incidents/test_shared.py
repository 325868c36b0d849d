"""Two runs and one cause: an incident of the fleet, theirs being parts of it, and one call to people."""

from dataclasses import replace
from datetime import timedelta

import pytest
from django.test import Client

from controlplane.domain.recovery.acts import Act, Do
from controlplane.fleet.models import Node
from controlplane.incidents import actions, acts, models
from controlplane.notify.models import Call
from controlplane.runbooks import fleet_answers
from controlplane.runs import actions as runs
from controlplane.runs.book import Book
from controlplane.web.context import open_count
from tests.incidents.conftest import NOW
from tests.incidents.test_record import finding, record
from tests.web.world import person

pytestmark = pytest.mark.django_db


@pytest.fixture
def other(run):
    """A second run, whose node n3 shares a switch with n1 of the first, and a third place."""
    places = {"n1": ("r1", "s1"), "n2": ("r2", "s2"), "n3": ("r3", "s1"), "n4": ("r3", "s3"), "head": ("r0", "s0")}
    for name, (rack, switch) in places.items():
        labels = {"rack": rack, "switch": switch, "zone": "z"}
        Node.objects.create(name=name, labels=labels, enrolled_at=NOW, state_since=NOW)
    other = runs.create_run("other", launcher="head", nodes_wanted=2, now=NOW)
    runs.open_attempt(other, ["n3", "n4"], runs.Resume(), NOW)
    return other


def lost(run, node, *, after=0, klass="node_lost", **words):
    entity = words.pop("entity", f"node:{node}")
    said = finding(klass, entity=entity, weight=5.0, run=run.name, **words)
    return record(run, replace(said, began=said.began + after))[0]


def settle(after=1):
    """Let the fleet's sweep have its turn."""
    now = NOW + timedelta(seconds=after)
    book = Book(now)
    moved = actions.settle(None, now, book=book)
    fleet_answers.answer(moved, now, book=book)
    book.write()
    return models.Incident.objects.filter(run=None)


def page(incident):
    acts.record(Act(do=Do.PAGE, why="it is lost", run=incident.run.name, key="1"), NOW, incident=incident)


def test_runs_that_lose_nodes_under_one_switch_are_parts_of_one_incident_and_people_are_called_once(run, other):
    first, second = lost(run, "n1"), lost(other, "n3", after=60)
    page(first)
    (whole,) = settle()
    page(second)
    assert (whole.klass, whole.title) == (
        "correlated_loss", "runs demo and other lost nodes in switch s1, which is what they share"
    )  # fmt: skip
    assert {one.explained_by_id for one in (fresh(first), fresh(second))} == {whole.pk}
    calling = Call.objects.exclude(fresh=False)
    assert [call.subject for call in calling] == [f"incident:{whole.pk}"]
    assert open_count() == 1
    assert len(settle(2)) == 1


def fresh(incident):
    return models.Incident.objects.get(pk=incident.pk)


def test_whoever_acknowledges_a_part_has_answered_for_the_whole(run, other):
    first, _ = lost(run, "n1"), lost(other, "n3")
    (whole,) = settle()
    actions.acknowledge(fresh(first), "ana", NOW)
    assert fresh(whole).acknowledged_by == "ana"
    assert not Call.objects.filter(acknowledged_at=None).exists()


def test_the_whole_ends_with_its_last_part_and_the_next_loss_calls_again(run, other):
    first, second = lost(run, "n1"), lost(other, "n3")
    (whole,) = settle()
    for one in (first, second):
        actions.resolve_by_hand(fresh(one), "ana", NOW)
    settle(5)
    assert fresh(whole).state == "resolved"
    (again,) = record(run, finding("node_lost", entity="node:n1", run="demo", attempt=2))
    page(again)
    assert Call.objects.filter(subject=f"incident:{again.pk}", fresh=True).exists()


def test_nobody_is_called_for_what_silenced_runs_share_until_one_of_the_silences_is_over(run, other):
    for one, minutes in ((run, 60), (other, 1)):
        actions.silence(one, minutes, "ana", NOW)
    lost(run, "n1"), lost(other, "n3")
    (whole,) = settle()
    assert (whole.quiet, settle(59).get().quiet) == (True, True)
    assert not Call.objects.filter(loud=True).exists()
    assert not settle(61).get().quiet
    (call,) = Call.objects.filter(loud=True)
    assert call.subject == f"incident:{whole.pk}"


def test_a_whole_that_a_person_resolved_does_not_open_again_for_the_same_parts(run, other):
    lost(run, "n1"), lost(other, "n3")
    (whole,) = settle()
    actions.resolve_by_hand(fresh(whole), "ana", NOW)
    assert list(settle(2)) == [whole]


@pytest.mark.parametrize(
    ("node", "after", "klass"),
    [("n4", 0, "node_lost"), ("n3", 1000, "node_lost"), ("n3", 0, "gpu_fault")],
    ids=["another place", "much later", "a fault of its own"],
)
def test_what_is_not_shared_stays_apart(run, other, node, after, klass):
    lost(run, "n1")
    lost(other, node, after=after, klass=klass)
    assert not settle().exists()


def test_a_storage_that_stalls_two_runs_and_a_change_that_both_were_launched_with_are_named(run, other):
    for one in (run, other):
        lost(one, "", klass="storage_stall", entity="storage")
        change = finding("environment_drift", entity="workload", run=one.name, severity="warning")
        line = {"at": NOW.timestamp(), "entity": "workload", "weight": 0.0, "text": "driver was 1 and is 2"}
        (drift,) = record(one, change)
        drift.findings.update(evidence=[{**line, "kind": "change", "bound_s": None}])
    told = {whole.klass: whole.title for whole in settle()}
    assert told == {
        "storage_stall": "runs demo and other wait for the same storage",
        "environment_drift": "runs demo and other were launched with the same change: driver was 1 and is 2",
    }


@pytest.mark.parametrize(
    ("mine", "theirs", "title"),
    [
        (["/store"], ["/store", "store0"], "runs demo and other wait for the same storage /store"),
        (["/store"], [], "runs demo and other wait for the same storage /store"),
        (["/store"], ["/home"], None),
    ],
    ids=["the same", "one without a name", "two storages"],
)
def test_runs_share_a_storage_only_when_they_do_not_name_different_ones(run, other, mine, theirs, title):
    for one, names in ((run, mine), (other, theirs)):
        lost(one, "", klass="storage_stall", entity="storage", facts={"fingerprint": "storage stall", "names": names})
    assert [whole.title for whole in settle()] == ([title] if title else [])


def test_an_outage_of_our_sight_is_one_incident_to_people(run, other):
    blind = [finding("blind", entity="platform", run=one.name, severity="warning") for one in (run, other)]
    ours = [record(one, said)[0] for one, said in zip((run, other), blind, strict=True)]
    (whole,) = record(None, finding("blind", entity="platform", run=None, severity="warning"))
    settle()
    assert {fresh(one).explained_by_id for one in ours} == {whole.pk}
    assert open_count() == 1
    page(fresh(ours[0]))
    assert not Call.objects.filter(subject=f"incident:{ours[0].pk}").exists()


def test_pages_show_the_whole_and_link_its_parts_both_ways(run, other):
    first, _ = lost(run, "n1"), lost(other, "n3")
    (whole,) = settle()
    client = Client()
    client.force_login(person())
    fleet = client.get("/").content.decode()
    assert f'href="/incidents/{whole.pk}/"' in fleet
    assert f'href="/incidents/{first.pk}/"' not in fleet
    assert f'href="/incidents/{first.pk}/"' in client.get(f"/incidents/{whole.pk}/").content.decode()
    part = client.get(f"/incidents/{first.pk}/").content.decode()
    assert "Part of a trouble of the fleet" in part
    assert f'href="/incidents/{whole.pk}/"' in part
