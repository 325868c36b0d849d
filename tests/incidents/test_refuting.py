"""A suspicion that the next launch refuted is taken back (methods 11.12)."""

import pytest

from controlplane.chronicle.models import Entry
from controlplane.fleet.models import Node
from controlplane.incidents import queries
from controlplane.incidents.models import ActRecord
from controlplane.quarantine import actions as quarantine
from controlplane.runs import actions as runs
from controlplane.runs.models import Attempt
from tests.incidents.conftest import NOW
from tests.incidents.test_record import finding, record

pytestmark = pytest.mark.django_db


@pytest.fixture
def node():
    return Node.objects.create(name="n1", state="healthy", state_since=NOW, enrolled_at=NOW)


def left_out(run, node, state, **words):
    """Open an incident that suspects the node, leave it out, and launch without it."""
    [incident] = record(run, finding("hang", entity="node:n1", weight=4.0, **words))
    quarantine.move("n1", state, "it is suspected", actor_kind="runbook", now=NOW, incident_id=incident.pk)
    launch(run, "n2", "n3")
    return incident


def launch(run, *nodes):
    runs.close_attempt(Attempt.objects.get(state="starting"), "failed", NOW)
    runs.open_attempt(run, list(nodes), runs.Resume(), NOW)


def again(run, **words):
    return record(run, finding("hang", attempt=2, key="again", entity="run", **words))


def test_a_suspect_that_was_left_out_for_nothing_is_a_spare_again(run, node):
    incident = left_out(run, node, "suspect")
    assert again(run) == [incident]
    node.refresh_from_db()
    assert node.state == "spare"
    told = Entry.objects.filter(kind="cleared", stream__name="run:demo").get().sentence
    assert told == "Cleared node n1: attempt 2 failed the same way without it; it is a spare again."
    incident.refresh_from_db()
    assert incident.refuted == ["node:n1"]
    assert queries.diagnosis(incident, NOW).act_on is None


def test_a_quarantine_is_only_proposed_for_release(run, node):
    left_out(run, node, "quarantined")
    again(run)
    node.refresh_from_db()
    act = ActRecord.objects.get()
    assert (node.state, act.do, act.node, act.proposed) == ("quarantined", "release", "n1", True)


def test_the_node_of_an_operators_hold_stays_as_it_is(run, node):
    left_out(run, node, "suspect")
    Node.objects.update(held=True)
    again(run)
    node.refresh_from_db()
    assert node.state == "suspect"
    assert Entry.objects.filter(sentence__contains="operator holds it").exists()
    assert not ActRecord.objects.exists()


def test_another_failure_refutes_nothing(run, node):
    left_out(run, node, "suspect")
    again(run, facts={"fingerprint": "elsewhere"})
    node.refresh_from_db()
    assert node.state == "suspect"


def test_a_failure_with_the_suspect_in_it_refutes_nothing(run, node):
    [incident] = record(run, finding("hang", entity="node:n1", weight=4.0))
    quarantine.move("n1", "suspect", "it is suspected", actor_kind="runbook", now=NOW, incident_id=incident.pk)
    launch(run, "n1", "n2")
    again(run)
    node.refresh_from_db()
    assert node.state == "suspect"


def test_no_later_hang_acquits_a_node_of_its_own_fatal_error(run, node):
    incident = left_out(run, node, "quarantined")
    record(run, finding("gpu_fault", entity="node:n1", weight=6.0, key="gpu"))
    again(run)
    incident.refresh_from_db()
    assert incident.refuted == []
    assert not ActRecord.objects.exists()
