import pytest

from controlplane.chronicle.models import Entry
from controlplane.domain.errors import Conflict, Invalid
from controlplane.incidents import actions
from controlplane.incidents.models import Incident
from controlplane.runs import actions as runs
from tests.incidents.conftest import NOW
from tests.incidents.test_record import finding

pytestmark = pytest.mark.django_db


@pytest.fixture
def incident():
    run = runs.create_run("demo", launcher="head", nodes_wanted=2, now=NOW)
    return actions.record(run, [finding()], NOW)[0]


def last():
    return Entry.objects.order_by("-pk").first()


def test_an_incident_is_acknowledged_by_one_person(incident):
    actions.acknowledge(incident, "ana", NOW)
    assert (last().kind, last().actor_kind, last().actor) == ("acknowledge", "person", "ana")
    with pytest.raises(Conflict, match="ana"):
        actions.acknowledge(Incident.objects.get(), "ben", NOW)


def test_acknowledging_changes_no_state(incident):
    actions.acknowledge(incident, "ana", NOW)
    assert Incident.objects.get().state == "open"


@pytest.mark.parametrize("text", ["", "  \n ", "x" * (actions.MAX_NOTE + 1)])
def test_a_note_says_something_and_not_too_much(incident, text):
    with pytest.raises(Invalid) as refusal:
        actions.note(incident, text, "ana", NOW)
    assert refusal.value.field == "text"


def test_a_note_is_kept_as_it_was_written(incident):
    actions.note(incident, "**look** at <n03>", "ana", NOW)
    assert (last().kind, last().sentence) == ("note", "**look** at <n03>")


def test_an_incident_is_resolved_by_hand_once(incident):
    actions.resolve_by_hand(incident, "ana", NOW, root_cause="a loose cable")
    assert Incident.objects.get().root_cause == "a loose cable"
    with pytest.raises(Conflict):
        actions.resolve_by_hand(incident, "ben", NOW)
    with pytest.raises(Conflict):
        actions.acknowledge(incident, "ben", NOW)
