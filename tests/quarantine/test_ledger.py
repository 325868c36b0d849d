from datetime import UTC, datetime, timedelta

import pytest

from controlplane.chronicle.models import Entry
from controlplane.domain.errors import Conflict, NotFound, Refused
from controlplane.fleet.models import Node
from controlplane.quarantine import actions, queries
from controlplane.quarantine.models import LedgerEntry

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 11, 29, 3, 0, tzinfo=UTC)


@pytest.fixture
def node():
    return Node.objects.create(name="n1", state="healthy", enrolled_at=NOW, state_since=NOW)


def state():
    return Node.objects.get(name="n1").state


def by_runbook(**more):
    return actions.quarantine("n1", "it is lost", actor_kind="runbook", now=NOW, **more)


def test_a_quarantine_keeps_reason_evidence_actor_and_incident(node):
    line = {"at": 1.0, "weight": 5.0, "entity": "node:n1", "text": "silent"}
    entry = by_runbook(evidence=[line], actor="r", incident_id=7, key="k")
    assert state() == "quarantined"
    assert (entry.evidence, entry.incident_id, entry.strike, entry.from_state) == ([line], 7, True, "healthy")
    assert queries.strikes("n1", NOW) == 1
    assert [row.name for row in queries.kept_out()] == ["n1"]


def test_the_same_key_again_writes_and_tells_nothing(node):
    first = by_runbook(key="k")
    assert by_runbook(key="k") == first
    assert LedgerEntry.objects.count() == 1
    assert Entry.objects.count() == 1


def test_a_node_that_an_operator_holds_is_not_touched_by_automation(node):
    Node.objects.update(held=True)
    with pytest.raises(Refused):
        by_runbook()
    assert (state(), LedgerEntry.objects.count()) == ("healthy", 0)
    actions.quarantine("n1", "I say so", actor_kind="person", actor="ana", now=NOW)
    assert state() == "quarantined"


def test_a_quarantined_node_is_not_quarantined_again(node):
    by_runbook()
    with pytest.raises(Conflict):
        by_runbook()


def test_a_move_that_the_ledger_does_not_know_leaves_no_trace(node):
    with pytest.raises(Refused):
        actions.move("n1", "proving", "hm", actor_kind="person", now=NOW)
    assert (state(), LedgerEntry.objects.count()) == ("healthy", 0)


def test_a_release_needs_a_quarantine(node):
    with pytest.raises(Conflict):
        actions.release("n1", by="ana", now=NOW)
    by_runbook()
    with pytest.raises(Refused):
        actions.admit("n1", by="ana", now=NOW)
    actions.release("n1", by="ana", now=NOW)
    assert state() == "spare"


def test_an_unknown_node_is_said_to_be_unknown():
    with pytest.raises(NotFound):
        actions.quarantine("n9", "x", actor_kind="person", now=NOW)


def test_group_events_add_no_strike_and_old_strikes_fade(node):
    by_runbook(strike=False)
    assert queries.strikes("n1", NOW) == 0
    actions.release("n1", by="ana", now=NOW)
    by_runbook()
    assert queries.strikes("n1", NOW) == 1
    assert queries.strikes("n1", NOW + timedelta(days=31)) == 0


def test_spares_join_and_healthy_nodes_leave_an_attempt(node):
    actions.leave(["n1"], "not used", now=NOW, key="a")
    assert state() == "spare"
    actions.join(["n1", "n404"], "used", now=NOW, key="b")
    assert state() == "healthy"
    assert LedgerEntry.objects.count() == 2
