from datetime import UTC, datetime, timedelta

import pytest

from controlplane.chronicle.models import Entry
from controlplane.domain.errors import Conflict, NotFound, Refused
from controlplane.domain.fleet import identity
from controlplane.fleet import queries as fleet_queries
from controlplane.fleet.models import Node
from controlplane.quarantine import actions, conflicts, queries
from controlplane.quarantine.models import LedgerEntry
from controlplane.runs import automation

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 11, 29, 3, 0, tzinfo=UTC)


@pytest.fixture
def node():
    return Node.objects.create(name="n1", state="healthy", enrolled_at=NOW, state_since=NOW)


def state():
    return Node.objects.get(name="n1").state


def by_runbook(node="n1", **more):
    return actions.quarantine(node, "it is lost", actor_kind="runbook", now=NOW, **more)


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


def judged(to, incident, minutes, **more):
    """Let automation move n1 by a verdict of an incident, minutes after the beginning."""
    at = NOW + timedelta(minutes=minutes)
    return actions.move("n1", to, "a verdict", actor_kind="runbook", incident_id=incident, now=at, **more)


def test_a_node_about_which_automation_contradicts_itself_is_left_as_it_is_until_a_person_moves_it(node):
    judged("suspect", 1, 0)
    judged("spare", 1, 15)  # the same trouble corrects itself
    for minutes in (20, 25):
        with pytest.raises(Refused, match="verdicts about n1 contradict each other, so a person has to move it"):
            judged("draining", 2, minutes)
    told = list(Entry.objects.filter(kind="action", sentence__startswith="Node n1 was made spare at 03:15 UTC"))
    assert (state(), len(told)) == ("spare", 1)
    assert queries.entries("n1").first().reason == told[0].sentence
    assert list(conflicts.all_frozen(NOW + timedelta(minutes=26))) == ["n1"]
    judged("quarantined", 3, 30, certain=True)  # freezing shields no fault
    with pytest.raises(Refused, match="contradict"):
        judged("spare", 4, 31)
    actions.release("n1", by="ana", now=NOW + timedelta(minutes=40))
    assert not conflicts.all_frozen(NOW + timedelta(minutes=40))
    judged("draining", 5, 41)
    assert state() == "draining"


def test_what_one_trouble_blames_no_other_acquits_and_the_freeze_ends_by_itself_after_a_day(node):
    judged("suspect", 1, 0)
    with pytest.raises(Refused, match="contradict"):
        judged("spare", 2, 10)
    with pytest.raises(Refused, match="contradict"):
        judged("spare", 2, 24 * 60)
    judged("spare", 2, 24 * 60 + 11)
    assert state() == "spare"


def test_a_person_settles_a_contradiction_also_after_a_clock_that_ran_ahead_was_set(node):
    actions.move("n1", "spare", "ahead", actor_kind="person", now=NOW + timedelta(hours=2))
    judged("suspect", 1, 0)
    with pytest.raises(Refused, match="contradict"):
        judged("spare", 2, 10)
    actions.move("n1", "spare", "it is well", actor_kind="person", now=NOW + timedelta(minutes=20))
    now = NOW + timedelta(minutes=21)
    assert (conflicts.frozen("n1", now), conflicts.all_frozen(now)) == (None, {})


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


def enrol(*names, **columns):
    return [
        Node.objects.create(name=name, state_since=NOW, enrolled_at=NOW, **{"state": "spare", **columns})
        for name in names
    ]


def test_runbooks_may_take_four_nodes_at_once_and_a_person_any_number(node):
    enrol(*[f"n{number}" for number in range(2, 8)])
    for number in range(1, 5):
        by_runbook(node=f"n{number}")
    with pytest.raises(Refused, match="taken 4 nodes out lately"):
        by_runbook(node="n5")
    actions.quarantine("n5", "I say so", actor_kind="person", actor="ana", now=NOW)
    later = NOW + timedelta(hours=15)
    actions.quarantine("n6", "x", actor_kind="runbook", now=later)


def test_what_a_group_lost_counts_as_one_decision(node):
    enrol(*[f"n{number}" for number in range(2, 8)])
    for number in range(1, 8):
        by_runbook(node=f"n{number}", strike=False, incident_id=5)
    assert len(queries.removals(NOW, timedelta(hours=1))) == 1


def test_a_node_back_from_quarantine_is_used_last_and_fails_at_double_price(node):
    enrol("n2")
    by_runbook()
    actions.release("n1", by="ana", now=NOW)
    assert [item.name for item in fleet_queries.spares()] == ["n2", "n1"]
    actions.quarantine("n1", "again", actor_kind="runbook", now=NOW + timedelta(hours=1))
    assert queries.strikes("n1", NOW + timedelta(hours=2)) == 3
    with pytest.raises(Refused, match="without a repair"):
        actions.release("n1", by="proof", actor_kind="runbook", now=NOW + timedelta(hours=2))
    actions.release("n1", by="ana", now=NOW + timedelta(hours=2))


HARDWARE = {"machine_id": "m1", "board_serial": "b1", "gpus": [{"uuid": "GPU-1"}, {"uuid": "GPU-2"}]}


def machine(name, hardware, state="spare", seen=NOW - timedelta(minutes=5)):
    hello = {"hardware": hardware, "identity": identity.digest(hardware), "last_seen_at": seen}
    return enrol(name, state=state, **hello)[0]


def test_a_machine_that_is_kept_out_is_refused_under_another_name():
    machine("n5", HARDWARE, "quarantined")
    machine("n16", HARDWARE)
    entry = actions.refuse(fleet_queries.returned("n16", NOW), now=NOW)
    assert (entry.to_state, entry.strike, entry.actor_kind) == ("quarantined", False, "system")
    told = Entry.objects.get().sentence
    assert told.startswith("Quarantined node n16, which is the same machine as node n5, which is quarantined")
    assert actions.refuse(fleet_queries.returned("n16", NOW), now=NOW) is None


def test_gpus_of_a_kept_out_machine_in_another_board_are_recognised():
    machine("n5", HARDWARE, "repairing")
    machine("n16", {"machine_id": "m9", "gpus": [{"uuid": "GPU-2"}, {"uuid": "GPU-8"}]})
    found = fleet_queries.returned("n16", NOW)
    assert (found.before.name, found.kinship) == ("n5", identity.Kinship.GPUS)


@pytest.mark.parametrize("reason", ["it speaks itself", "others share its identifiers", "it only drains", "it is free"])
def test_a_machine_is_not_taken_for_another(reason):
    state = {"it only drains": "draining", "it is free": "spare"}.get(reason, "quarantined")
    seen = NOW if reason == "it speaks itself" else NOW - timedelta(minutes=5)
    shown = {"machine_id": "m1"}
    machine("n5", shown, state, seen)
    machine("n16", shown)
    if reason == "others share its identifiers":
        machine("n17", shown)
    assert fleet_queries.returned("n16", NOW) is None


def test_whom_a_person_let_in_is_not_refused_again():
    machine("n5", HARDWARE, "quarantined")
    machine("n16", HARDWARE)
    later = NOW + timedelta(minutes=10)
    actions.refuse(fleet_queries.returned("n16", NOW), now=NOW)
    actions.release("n16", by="ana", now=later)
    assert actions.refuse(fleet_queries.returned("n16", later), now=later) is None


def test_a_drain_by_a_runbook_spends_as_much_as_a_quarantine_and_what_is_out_is_taken_out_once(node):
    enrol(*[f"n{number}" for number in range(2, 8)])
    for number in range(1, 4):
        actions.move(f"n{number}", "draining", "it is slow", actor_kind="runbook", now=NOW)
    by_runbook(node="n1")
    assert len(queries.removals(NOW, timedelta(hours=1))) == 3
    by_runbook(node="n4")
    with pytest.raises(Refused, match="taken 4 nodes out lately"):
        actions.move("n5", "draining", "it is slow", actor_kind="runbook", now=NOW)


def test_automation_brings_back_what_it_took_out_itself_and_nothing_else(node):
    enrol("n2")
    for name, kind in (("n1", "person"), ("n2", "runbook")):
        actions.move(name, "draining", "x", actor_kind=kind, now=NOW)
    actions.move("n2", "spare", "it was not the cause", actor_kind="system", now=NOW)
    with pytest.raises(Refused, match="a person made n1 draining"):
        actions.move("n1", "spare", "it was not the cause", actor_kind="system", now=NOW)


def test_automation_judges_no_node_while_it_is_switched_off(node):
    automation.turn_off(None, "ana", "", NOW)
    with pytest.raises(Refused, match="ana switched automation off"):
        by_runbook()
    actions.quarantine("n1", "I say so", actor_kind="person", actor="ana", now=NOW)
