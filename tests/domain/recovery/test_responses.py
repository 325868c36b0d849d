from dataclasses import replace

import pytest

from controlplane.domain.detection.policy import RunPolicy
from controlplane.domain.diagnosis.classes import CLASSES
from controlplane.domain.diagnosis.diagnose import diagnose
from controlplane.domain.findings import Evidence, Finding, Stage
from controlplane.domain.recovery.responses import condemned, excluded, suspect_step
from tests.domain.recovery.shelf import CATALOG, choose
from tests.domain.recovery.test_choice import NOW, POLICY, facts

XID = Evidence(at=NOW, entity="node:n2", weight=6.0, text="GPU 3 of n2 fell off the bus (Xid 79)", kind="xid 79")
SLOW = Evidence(at=NOW, entity="node:n2", weight=4.5, text="rank 9 on n2 computes 5.9 % longer", kind="slow")


def finding(klass, stage=Stage.CONFIRMED, severity="critical", evidence=(), entity="run", **known):
    return Finding(
        key=klass, detector="D", klass=klass, stage=stage, entity=entity, began=NOW, at=NOW, run="demo", attempt=1,
        severity=severity, sentence=f"trouble {klass}", evidence=evidence, facts=known,
    )  # fmt: skip


def found(klass, *others, **words):
    return diagnose([finding(klass, **words), *others], now=NOW, policy=RunPolicy())


def answered(klass, *others, exited=False, **words):
    runbook = CATALOG.plan(found(klass, *others, **words), exited=exited).runbook
    return runbook.id if runbook else None


TOLD = {
    "checkpoint_incomplete", "checkpoint_overdue", "identity_conflict", "spares_low",
    "environment_drift", "check_broken", "telemetry_lost", "blind",
}  # fmt: skip


def test_every_class_that_is_not_only_told_has_an_answer():
    assert {klass for klass in CLASSES if not list(CATALOG.answers_to(klass))} == TOLD


@pytest.mark.parametrize(
    ("klass", "runbook"),
    [
        ("crash", "restart-after-crash"),
        ("hang", "recover-hang"),
        ("restore_stall", "recover-hang"),
        ("node_lost", "replace-node"),
        ("gpu_fault", "replace-node"),
        ("correlated_loss", "fleet-loss"),
    ],
)
def test_what_stops_a_run_is_answered_with_a_restart(klass, runbook):
    assert answered(klass) == runbook
    assert CATALOG.runbooks[runbook].launches


@pytest.mark.parametrize("klass", ["workload_error", "host_memory", "network_fault", "storage_stall", "crash_loop"])
def test_what_may_leave_the_run_training_is_answered_only_once_it_trains_no_more(klass):
    assert answered(klass) is None
    runbook = "storage-trouble" if klass == "storage_stall" else "restart-after-crash"
    assert answered(klass, exited=True) == runbook
    assert answered(klass, finding("crash")) == runbook


def test_a_suspicion_about_the_loss_or_a_gpu_stops_nothing():
    assert answered("loss_anomaly", stage=Stage.SUSPECT) is None
    assert answered("gpu_fault", stage=Stage.SUSPECT, evidence=(XID,)) is None


def test_trouble_with_the_loss_that_is_sure_rolls_back_and_a_drift_is_only_told():
    assert answered("loss_anomaly") == "roll-back"
    assert answered("loss_anomaly", severity="warning") is None


def test_a_slow_node_is_drained_at_the_next_save_and_one_that_nobody_names_is_not_looked_for_by_stopping():
    assert answered("fail_slow", severity="warning", evidence=(SLOW,)) == "drain-at-save"
    assert answered("fail_slow", severity="warning") is None


def test_a_gpu_fault_waits_for_the_save_or_is_only_counted_where_its_signature_says_so():
    assert answered("gpu_fault", evidence=(XID,), action="drain_at_save") == "drain-at-save"
    assert answered("gpu_fault", evidence=(XID,), action="count") is None
    assert answered("gpu_fault", finding("crash"), evidence=(XID,), action="count") == "replace-node"


def test_a_fleet_that_holds_restarts_nothing():
    assert answered("correlated_loss", hold=True) is None


def test_a_wrong_resume_is_stopped_and_then_a_person_decides():
    assert answered("resume_mismatch") == "stop-and-ask"
    decision = choose(found("resume_mismatch"), facts(exited=True), POLICY)
    assert (decision.runbook, decision.held_by) == ("restart-after-crash", "person")


def test_a_crash_loop_asks_a_person_unless_a_node_is_newly_condemned():
    assert choose(found("crash_loop"), facts(exited=True), POLICY).held_by == "person"
    sure = found("crash_loop", finding("gpu_fault", evidence=(XID,)))
    assert choose(sure, facts(exited=True), POLICY).starts


def test_a_lost_group_is_left_out_whole_and_condemned_singly_is_nobody():
    lost = found("correlated_loss", nodes=["n1", "n2"], domain="rack:r3")
    assert excluded(lost, spares=0) == ("n1", "n2")
    assert condemned(lost) == ()
    assert choose(lost, facts(), POLICY).starts


def test_a_large_group_that_nothing_confirms_needs_a_person():
    lost = found("correlated_loss", nodes=["n1", "n2"], domain="")
    assert choose(lost, facts(), POLICY).held_by == "share"


def test_a_suspicion_never_costs_a_node_that_no_spare_replaces():
    hang = found("hang", evidence=(SLOW,))
    assert choose(hang, facts(spares=0), POLICY).exclude == ()
    assert choose(hang, facts(spares=1), POLICY).exclude == ("n2",)
    assert choose(found("gpu_fault", evidence=(XID,)), facts(spares=0), POLICY).exclude == ("n2",)


def test_a_slow_node_without_a_spare_stays():
    slow = found("fail_slow", severity="warning", evidence=(SLOW,))
    assert choose(slow, facts(spares=0), POLICY).runbook is None
    assert choose(slow, facts(spares=1), POLICY).starts


def test_a_rule_that_only_proposes_proposes():
    crash = replace(found("crash"), mode="propose")
    assert choose(crash, facts(), POLICY).held_by == "rule"


def test_nodes_left_out_within_ten_minutes_count_together():
    lost = found("node_lost", entity="node:n2", evidence=(XID,))
    assert choose(lost, facts(), POLICY).starts
    assert choose(lost, facts(lately_excluded=frozenset({"n1"})), POLICY).held_by == "share"


@pytest.mark.parametrize(
    ("klass", "entity", "known", "step"),
    [
        ("checkpoint_poison", "checkpoint:300", {}, 300),
        ("checkpoint_poison", "run", {"step": 200}, 200),
        ("restore_failed", "run", {"step": 100}, 100),
        ("crash", "run", {"step": 100}, None),
        ("checkpoint_poison", "checkpoint:x", {}, None),
        ("checkpoint_poison", "checkpoint:" + "9" * 30, {}, None),
    ],
)
def test_a_distrusted_checkpoint_is_known_by_its_step(klass, entity, known, step):
    assert suspect_step(klass, entity, known) == step
