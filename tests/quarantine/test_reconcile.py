"""Ledger and scheduler are held against each other; what differs is asked for once, told, and seen in the next word."""

from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from controlplane.chronicle.models import Entry
from controlplane.domain.fleet.reconcile import AGAIN_AFTER_S
from controlplane.domain.signals import Signal
from controlplane.fleet import actions as fleet
from controlplane.fleet import pruning
from controlplane.fleet.models import Command, Node
from controlplane.quarantine import actions as quarantine
from controlplane.quarantine import queries
from controlplane.quarantine.reconcile import reconcile, standing
from controlplane.runs import actions as runs
from controlplane.runs import automation
from controlplane.runs.models import Attempt, Run

pytestmark = pytest.mark.django_db
T0 = datetime(2026, 11, 30, 2, 0, tzinfo=UTC)
KILL = "Kill task failed"


class Site:
    """One node, its ledger, its scheduler and its agents, under a given clock."""

    def __init__(self):
        self.now = T0
        for name, head in (("head", True), ("n03", False)):
            Node.objects.create(name=name, head=head, state="healthy", enrolled_at=T0, state_since=T0)

    def later(self, seconds):
        self.now += timedelta(seconds=seconds)
        return self

    def word(self, state, **data):
        at = self.now.timestamp()
        fleet.note_nodes([
            Signal(kind="scheduler.node", received=at, at_ms=int(at * 1000), node="head",
                   data={"node": "n03", "state": state, **data}),
        ])  # fmt: skip

    def look(self):
        return [(verdict.ask, verdict.node) for verdict in reconcile(self.now)]

    def answer(self, state="succeeded", **data):
        for command in Command.objects.filter(state="pending"):
            fleet.record_result(command.pk, {"state": state, "data": data}, self.now)

    def sent(self):
        return [(row.node.name, row.kind) for row in Command.objects.order_by("created_at", "idempotency_key")]

    def quarantine(self, reason="Xid 48"):
        quarantine.quarantine("n03", reason, actor_kind="person", actor="ana", now=self.now)

    def told(self):
        return [row.sentence for row in Entry.objects.filter(kind="action").order_by("pk")]


@pytest.fixture
def site():
    return Site()


def test_a_quarantined_node_that_is_still_offered_is_drained_once_and_its_history_says_so(site):
    site.quarantine()
    site.word("idle")
    assert site.look() == [("drain", "n03")]
    assert site.later(30).look() == []
    (command,) = Command.objects.all()
    assert (command.node.name, command.kind) == ("head", "nodes.drain")
    assert command.args == {"nodes": ["n03"], "reason": "quarantined: Xid 48"}
    assert site.told() == ["Asked the scheduler to place nothing more on node n03: quarantined: Xid 48."]
    newest = queries.entries("n03").first()
    assert (newest.from_state, newest.to_state, newest.actor) == ("quarantined", "quarantined", "reconciliation")
    assert queries.moves("n03").first().reason == "Xid 48"


def test_a_drain_that_came_to_nothing_is_asked_for_again_after_ten_minutes(site):
    site.quarantine()
    site.word("idle")
    site.look()
    site.answer("failed")
    assert site.later(AGAIN_AFTER_S - 1).look() == []
    site.later(1).word("idle")
    assert site.look() == [("drain", "n03")]
    assert len(site.sent()) == 2


def test_what_was_asked_long_ago_and_is_forgotten_keeps_nothing_from_being_asked_again(site):
    site.quarantine()
    for _ in range(3):
        site.later(AGAIN_AFTER_S).word("idle")
        site.look()
        site.answer("failed")
    pruning.prune(site.now, timedelta(seconds=AGAIN_AFTER_S + 1), living=[])
    site.later(AGAIN_AFTER_S).word("idle")
    assert site.look() == [("drain", "n03")]
    assert Command.objects.filter(state="pending").exists()


def test_a_released_node_gets_its_place_back_and_a_persons_drain_stays(site):
    site.quarantine()
    site.word("drained", reason="middlewatch: quarantined: Xid 48", owner="root")
    assert site.look() == []
    quarantine.release("n03", by="ana", now=site.later(10).now)
    assert site.look() == [("resume", "n03")]
    site.later(5).word("drained", reason="new firmware", owner="site")
    assert site.look() == []
    ((_, verdict),) = standing(Node.objects.get(name="n03"), site.now)
    assert verdict.why == "that is not ours to undo"


def test_a_controller_that_says_nothing_gets_nothing_asked(site):
    site.quarantine()
    site.word("idle")
    assert site.later(181).look() == []
    assert site.sent() == []


def test_a_node_that_an_operator_holds_is_left_to_the_operator(site):
    site.quarantine()
    fleet.hold_node("n03", held=True)
    site.word("idle")
    assert site.look() == []


def test_nothing_is_asked_while_automation_is_switched_off_or_its_breaker_is_open(site):
    site.quarantine()
    site.word("idle")
    automation.turn_off(None, "ana", "looking into it", site.now)
    assert site.look() == []
    automation.turn_on(None, site.now, process=True)
    automation.open_breaker(None, "too many acts", site.now)
    assert site.look() == []
    assert site.sent() == []


def test_a_drain_over_a_step_that_did_not_end_is_undone_with_proof_alone(site):
    ended(site)
    site.word("drained", reason=KILL, owner="slurm")
    assert site.look() == [("prove", "n03")]
    assert site.sent() == [("n03", "ranks.stop")]
    assert site.later(5).look() == []
    site.answer(survivors=[])
    assert site.look() == [("resume", "n03")]
    assert site.sent()[-1] == ("head", "nodes.resume")


@pytest.mark.parametrize("held", [True, False])
def test_no_proof_that_ends_ranks_is_asked_for_where_a_run_is_left_to_people(site, held):
    ended(site)
    run = Run.objects.get()
    if held:
        runs.hold(run, "ana", site.now)
    else:
        automation.turn_off(run, "ana", "", site.now)
    site.word("drained", reason=KILL, owner="slurm")
    assert (site.look(), site.told()) == ([], [])
    if held:
        runs.resume(run, "ana", site.now)
    else:
        automation.turn_on(run, site.now, process=True)
    assert site.look() == [("prove", "n03")]


def test_runs_are_locked_before_switches_as_where_a_breaker_opens(site):
    ended(site)
    site.word("drained", reason=KILL, owner="slurm")
    with CaptureQueriesContext(connection) as asked:
        assert site.look() == [("prove", "n03")]
    locks = [what for query in asked for what in ("runs_run", "advisory", "fleet_node") if locked(query["sql"], what)]
    assert list(dict.fromkeys(locks)) == ["runs_run", "advisory", "fleet_node"]


def locked(sql, what):
    return what in sql and ("FOR NO KEY UPDATE" in sql or "xact_lock" in sql)


def test_a_rank_that_still_lives_keeps_its_node_drained_until_a_later_proof(site):
    ended(site)
    site.word("drained", reason=KILL)
    site.look()
    site.answer("failed", survivors=[{"pid": 7}])
    assert site.later(60).look() == []
    site.later(AGAIN_AFTER_S).word("drained", reason=KILL)
    assert site.look() == [("prove", "n03")]
    site.answer(survivors=[])
    assert site.look() == [("resume", "n03")]


def test_where_none_of_our_attempts_ended_no_agent_can_vouch_for_the_node(site):
    site.word("drained", reason=KILL)
    assert site.look() == []


def test_a_node_that_is_kept_out_meanwhile_is_not_given_back(site):
    ended(site)
    site.word("drained", reason=KILL)
    site.look()
    site.answer(survivors=[])
    site.quarantine()
    assert site.look() == []


def test_a_note_on_a_quarantined_node_counts_as_no_removal_and_hides_no_persons_word(site):
    site.quarantine()
    site.word("idle")
    site.look()
    assert queries.removals(site.now, timedelta(hours=1)) == []
    assert queries.released(["n03"]) == {}
    assert queries.moves("n03").first().actor_kind == "person"


def ended(site):
    run = Run.objects.create(name="demo", launcher="head", nodes_wanted=1, created_at=T0)
    Attempt.objects.create(run=run, number=1, nodes=["n03"], state="exited", started_at=T0, exited_at=site.now)
