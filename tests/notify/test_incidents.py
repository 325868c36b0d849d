"""What incidents and their answers ask of us."""

import pytest

from controlplane.domain.recovery.acts import Act, Do
from controlplane.incidents import actions as incidents
from controlplane.incidents import planned
from controlplane.incidents.models import Incident
from controlplane.notify.models import Call
from controlplane.runbooks import attend
from controlplane.runs.book import Book
from controlplane.runs.models import Attempt, Run

from .conftest import NOW, after


@pytest.fixture
def incident(db):
    run = Run.objects.create(name="demo", launcher="head", nodes_wanted=1, created_at=NOW)
    return Incident.objects.create(run=run, attempt=1, klass="hang", title="Rank 1", began_at=NOW, opened_at=NOW)


def tell(incident, do, key="1"):
    attend.write(incident, [Act(do=do, why="it hangs", run="demo", key=key)], NOW, Book(NOW))


def test_a_page_calls_loudly_and_a_note_quietly_each_once(incident):
    for do in (Do.PAGE, Do.NOTIFY, Do.PAGE, Do.HOLD):
        tell(incident, do)
    subject = f"incident:{incident.pk}"
    calls = Call.objects.values_list("subject", "run", "klass", "severity", "loud", "escalates")
    assert list(calls) == [
        (subject, "demo", "hang", "critical", True, True), (subject, "demo", "hang", "critical", False, False),
    ]  # fmt: skip


def test_a_page_about_planned_or_mild_trouble_is_as_urgent_and_goes_on_until_somebody_looks(incident):
    attempt = Attempt.objects.create(run=incident.run, number=1, started_at=NOW)
    work = planned.open_planned(incident.run, attempt, "A change", "ana", NOW, book=Book(NOW))
    for do in (Do.PAGE, Do.NOTIFY):
        tell(work, do)
    assert list(Call.objects.values_list("severity", "escalates")) == [("critical", True), ("info", False)]
    incidents.acknowledge(work, "ben", after(10))
    assert set(Call.objects.values_list("acknowledged_by", flat=True)) == {"ben"}


def test_acknowledging_an_incident_stops_its_calls_and_resolving_ends_them(incident):
    tell(incident, Do.PAGE)
    incidents.acknowledge(incident, "ana", after(10))
    assert Call.objects.get().acknowledged_by == "ana"
    incidents.resolve_by_hand(incident, "ana", after(20))
    assert Call.objects.get().ended_at == after(20)


def test_a_page_about_an_incident_that_somebody_looks_at_goes_no_further_than_its_first_step(incident):
    incidents.acknowledge(incident, "ana", NOW)
    tell(incident, Do.PAGE)
    assert Call.objects.get().escalates is False


def test_an_incident_that_goes_on_by_itself_needs_nobody(incident):
    tell(incident, Do.PAGE)
    incidents.mitigate(incident, "Training goes on.", after(30), book=Book(NOW))
    assert Call.objects.get().ended_at == after(30)
