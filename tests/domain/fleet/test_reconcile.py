"""Where ledger and scheduler differ, the scheduler is asked to follow, and nothing of anybody else is undone."""

import pytest

from controlplane.domain.fleet.reconcile import AGAIN_AFTER_S, Ask, Case, Proof, judge, may_ask_again
from controlplane.domain.fleet.scheduling import OLD_AFTER_S, Word

NOW = 10_000.0
KILL = "Kill task failed"


def case(ledger, state, *, reason="", owner="", since=NOW - 60, heard=NOW, **more):
    word = Word(state=state, reason=reason, owner=owner, since=since, heard_at=heard)
    return Case(node="n03", ledger=ledger, why=more.pop("why", ""), word=word, **more)


def asked(*args, **more):
    return judge(case(*args, **more), NOW).ask


@pytest.mark.parametrize("ledger", ["draining", "quarantined", "repairing", "proving"])
@pytest.mark.parametrize("state", ["idle", "allocated", "mixed"])
def test_a_node_that_is_kept_out_and_yet_offered_is_drained(ledger, state):
    found = judge(case(ledger, state, why="Xid 48"), NOW)
    assert (found.ask, found.why) == (Ask.DRAIN, f"{ledger}: Xid 48")


@pytest.mark.parametrize("state", ["drained", "draining", "down", "maint"])
def test_a_node_that_both_keep_out_is_left_as_it_is(state):
    assert judge(case("quarantined", state, reason="fan", owner="ana"), NOW).ask is None


@pytest.mark.parametrize("ledger", ["healthy", "spare", "suspect"])
def test_a_released_node_with_our_mark_is_given_back(ledger):
    ours = {"reason": "middlewatch: Xid 48", "owner": "root"}
    assert asked(ledger, "drained", **ours, released_at=NOW - 1) is Ask.RESUME
    assert asked(ledger, "drained", owner="middlewatch", released_at=NOW - 1) is Ask.RESUME


def test_our_mark_alone_gives_nothing_back_without_a_release_or_a_proof():
    ours = {"reason": "middlewatch: fenced"}
    assert asked("healthy", "drained", **ours) is Ask.PROVE
    assert asked("healthy", "drained", **ours, released_at=NOW - 500) is Ask.PROVE
    assert asked("healthy", "drained", **ours, proof=Proof.CLEAR) is Ask.RESUME
    assert asked("healthy", "down", **ours) is Ask.PROVE
    assert asked("healthy", "draining", **ours) is None


@pytest.mark.parametrize("reason", ["new firmware", "Not responding", ""])
def test_what_a_person_or_the_scheduler_drained_is_left_alone_and_said_so(reason):
    found = judge(case("spare", "drained", reason=reason, owner="site", released_at=NOW - 1), NOW)
    assert found.ask is None
    assert found.why == "that is not ours to undo"


def test_a_node_whose_step_would_not_end_comes_back_only_with_proof():
    drained = {"reason": KILL, "owner": "slurm"}
    assert asked("healthy", "drained", **drained) is Ask.PROVE
    for proof in (Proof.ASKED, Proof.LEFT, Proof.IMPOSSIBLE):
        assert asked("healthy", "drained", **drained, proof=proof) is None
    assert asked("healthy", "drained", **drained, proof=Proof.CLEAR) is Ask.RESUME


def test_a_proof_brings_no_node_back_that_the_ledger_keeps_out_or_that_still_works():
    assert asked("quarantined", "drained", reason=KILL, proof=Proof.CLEAR) is None
    assert asked("healthy", "draining", reason=KILL, proof=Proof.CLEAR) is None


@pytest.mark.parametrize("ledger", ["quarantined", "healthy"])
def test_nothing_is_done_on_what_is_unknown(ledger):
    old = NOW - OLD_AFTER_S - 1
    assert asked(ledger, "idle", heard=old) is None
    assert asked(ledger, "unknown") is None
    assert asked(ledger, "drained", reason="middlewatch: x", heard=old, released_at=NOW) is None


@pytest.mark.parametrize("ledger", ["unknown", "retired"])
def test_a_stranger_and_a_retired_machine_are_nobodys_to_drain(ledger):
    assert asked(ledger, "idle") is None
    assert asked(ledger, "drained", reason="middlewatch: x", released_at=NOW) is None


def test_an_operators_hold_keeps_automation_away_in_both_directions():
    assert judge(case("quarantined", "idle", held=True), NOW).why == "an operator holds it"
    assert asked("spare", "drained", reason="middlewatch: x", released_at=NOW, held=True) is None


def test_agreement_needs_no_words():
    assert judge(case("healthy", "allocated"), NOW).why == ""


def test_a_request_is_repeated_only_after_it_has_ended_in_vain_for_ten_minutes():
    assert may_ask_again(None, NOW, pending=False)
    assert not may_ask_again(NOW - AGAIN_AFTER_S, NOW, pending=True)
    assert not may_ask_again(NOW - AGAIN_AFTER_S + 1, NOW, pending=False)
    assert may_ask_again(NOW - AGAIN_AFTER_S, NOW, pending=False)
