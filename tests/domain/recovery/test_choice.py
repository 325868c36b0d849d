from dataclasses import replace

import pytest

from controlplane.domain.detection.policy import RunPolicy
from controlplane.domain.diagnosis.diagnose import diagnose
from controlplane.domain.findings import Evidence, Finding, Stage
from controlplane.domain.recovery import choice
from controlplane.domain.recovery.catalog import Catalog
from controlplane.domain.recovery.choice import RunFacts
from controlplane.domain.recovery.guards import TokenBucket
from controlplane.domain.recovery.runbook import Limits
from tests.domain.recovery.shelf import CATALOG, choose

POLICY = RunPolicy()
NOW = 5000.0
EMPTY = TokenBucket(capacity=4, refill_s=1800, tokens=0.25, refilled_at=NOW)


def facts(**words):
    start = {"now": NOW, "mode": "autopilot", "state": "running", "nodes": ("n0", "n1", "n2", "n3")}
    return RunFacts(**{**start, "bucket": TokenBucket.full(POLICY, NOW), **words})


def diagnosis(klass="crash", stage=Stage.CONFIRMED, evidence=()):
    finding = Finding(
        key="k", detector="D-03", klass=klass, stage=stage, entity="rank:2", began=NOW, at=NOW, run="demo", attempt=1,
        sentence="rank 2 died", evidence=evidence,
    )  # fmt: skip
    return diagnose([finding], now=NOW, policy=POLICY)


@pytest.mark.parametrize(
    ("klass", "runbook"),
    [
        ("crash", "restart-after-crash"),
        ("crash_no_exit", "restart-after-crash"),
        ("hang", "recover-hang"),
        ("node_lost", "replace-node"),
    ],
)
def test_a_broken_run_is_restarted_at_once(klass, runbook):
    decision = choose(diagnosis(klass), facts(), POLICY)
    assert (decision.runbook, decision.held_by, decision.starts) == (runbook, None, True)


def test_a_suspected_hang_starts_the_runbook_which_waits_itself_before_it_harms():
    assert choose(diagnosis("hang", Stage.SUSPECT), facts(), POLICY).starts


def test_a_suspected_node_is_named_although_it_is_not_left_out_yet():
    silent = Evidence(at=NOW, entity="node:n2", weight=2.0, text="n2 is silent")
    suspected = choose(diagnosis("node_lost", Stage.SUSPECT, (silent,)), facts(), POLICY)
    assert (suspected.exclude, suspected.why) == ((), "node n2 is only suspected so far, so none is left out yet")
    assert choose(diagnosis("node_lost", Stage.SUSPECT), facts(), POLICY).why.startswith("no node stands out")


@pytest.mark.parametrize("klass", ["blind", "telemetry_lost"])
def test_trouble_with_our_own_sight_is_told_and_nothing_is_done(klass):
    assert choose(diagnosis(klass), facts(), POLICY).runbook is None


@pytest.mark.parametrize(
    ("words", "held_by"),
    [
        ({"held": True, "held_by": "ana"}, "operator"),
        ({"kill_switch": "ana switched automation off everywhere"}, "kill switch"),
        ({"breaker": "the breaker is open"}, "breaker"),
        ({"age_s": 7 * 3600.0}, "age"),
        ({"runs_touched": 2}, "runs"),
        ({"modes": {"restart-after-crash": "ask"}}, "ask"),
        ({"modes": {"restart-after-crash": "watch"}}, "watch"),
        ({"partition": "8 of 20 nodes fell silent together"}, "partition"),
        ({"mode": "watch"}, "watch"),
        ({"mode": "ask"}, "ask"),
        ({"storage": "the storage does not answer"}, "storage"),
        ({"same_failures": 1}, "repeat"),
        ({"tries": {"same nodes": 2}}, "ladder"),
        ({"bucket": EMPTY}, "bucket"),
        ({"fruitless": 1, "last_restart_at": NOW - 10}, "backoff"),
    ],
)
def test_each_guard_holds_the_runbook_back_and_says_why(words, held_by):
    decision = choose(diagnosis(), facts(**words), POLICY)
    assert (decision.runbook, decision.held_by) == ("restart-after-crash", held_by)
    assert decision.why
    assert not decision.starts


def test_a_persons_hold_outranks_every_other_guard():
    decision = choose(diagnosis(), facts(held=True, mode="watch", bucket=EMPTY, partition="x"), POLICY)
    assert decision.held_by == "operator"


def test_the_pause_after_a_fruitless_restart_ends_by_itself():
    decision = choose(diagnosis(), facts(fruitless=3, last_restart_at=NOW - 10), POLICY)
    assert decision.waits
    assert decision.not_before == NOW - 10 + 120
    assert choose(diagnosis(), facts(fruitless=3, last_restart_at=NOW - 120), POLICY).starts


@pytest.mark.parametrize("state", ["completed", "stopped"])
def test_what_has_ended_is_never_restarted(state):
    assert choose(diagnosis(), facts(state=state), POLICY).runbook is None


def test_what_cleared_by_itself_needs_nothing():
    assert choose(diagnosis("hang", Stage.CLEARED), facts(), POLICY).runbook is None


def test_a_node_far_ahead_of_all_others_is_left_out():
    down = Evidence(at=NOW, entity="node:n2", weight=5.0, text="the scheduler says down")
    decision = choose(diagnosis("node_lost", evidence=(down,)), facts(same_failures=2), POLICY)
    assert (decision.exclude, decision.starts) == (("n2",), True)
    assert "n2" in decision.why


def limited(**words):
    runbook = replace(CATALOG.runbooks["restart-after-crash"], limits=Limits(**words))
    return Catalog({runbook.id: runbook})


def blamed():
    down = Evidence(at=NOW, entity="node:n2", weight=5.0, text="the scheduler says down")
    return diagnosis(evidence=(down,))


@pytest.mark.parametrize(
    ("limits", "words", "held_by"),
    [
        ({"uses": 3}, {"uses": {"restart-after-crash": 3}}, "limits"),
        ({"uses": 3}, {"uses": {"restart-after-crash": 2}}, None),
        ({"nodes": 0}, {"spares": 1}, "limits"),
        ({"nodes": 1}, {"spares": 1}, None),
        ({"spares": 2}, {"spares": 2}, "limits"),
        ({"spares": 2}, {"spares": 3}, None),
    ],
)
def test_a_runbook_keeps_the_limits_of_its_own_file(limits, words, held_by):
    assert choice.choose(blamed(), facts(**words), POLICY, limited(**limits)).held_by == held_by


def test_after_two_vain_replacements_the_suspects_failure_domain_is_left_out_where_spares_replace_it():
    vain = {"tries": {"replace": 2}, "neighbours": ("n3",)}
    policy = RunPolicy(max_share=0.5)
    assert choose(blamed(), facts(spares=1, **vain), policy).held_by == "ladder"
    decision = choose(blamed(), facts(spares=2, **vain), policy)
    assert (decision.exclude, decision.rung, decision.held_by) == (("n2", "n3"), "replace domain", None)
    again = {**vain, "tries": {"replace": 2, "replace domain": 2}}
    assert choose(blamed(), facts(spares=2, **again), policy).held_by == "ladder"


def test_a_failure_domain_beyond_a_tenth_of_the_run_needs_a_person():
    vain = facts(spares=2, tries={"replace": 2}, neighbours=("n3",))
    assert choose(blamed(), vain, POLICY).held_by == "share"


def test_the_second_hang_of_a_kind_is_stopped_and_its_restart_is_a_persons():
    again = facts(same_failures=1)
    stop = choose(diagnosis("hang"), again, POLICY)
    assert (stop.runbook, stop.starts) == ("stop-hang", True)
    restart = choose(diagnosis("hang"), replace(again, exited=True), POLICY)
    assert (restart.runbook, restart.held_by) == ("recover-hang", "repeat")
    assert choose(diagnosis("hang"), facts(), POLICY).runbook == "recover-hang"


def test_a_second_hang_with_a_new_suspect_is_restarted_without_it():
    blamed = Evidence(at=NOW, entity="node:n2", weight=6.0, text="n2 stands alone", kind="stack")
    decision = choose(diagnosis("hang", evidence=(blamed,)), facts(same_failures=1), POLICY)
    assert (decision.runbook, decision.exclude, decision.starts) == ("recover-hang", ("n2",), True)
