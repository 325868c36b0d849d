import pytest

from controlplane.domain.diagnosis.group import IncidentFacts, comes_again, opens_anew, same_incident
from controlplane.domain.findings import Stage
from tests.domain.diagnosis.test_diagnose import finding


def incident(**words):
    return IncidentFacts(**{"run": "demo", "attempt": 1, "klass": "crash", "state": "open", **words})


@pytest.mark.parametrize(
    ("known", "found", "same"),
    [
        (incident(), finding("node_lost"), True),
        (incident(), finding("crash", attempt=2), True),
        (incident(), finding("crash", run="other"), False),
        (incident(state="resolved"), finding("crash"), False),
        (incident(state="mitigated"), finding("node_lost", attempt=1), True),
        (incident(state="mitigated"), finding("crash", attempt=2), False),
        (incident(), finding("telemetry_lost"), False),
        (incident(klass="blind"), finding("blind"), True),
        (incident(klass="blind"), finding("telemetry_lost"), False),
        (incident(klass="telemetry_lost"), finding("node_lost"), False),
        (incident(run=None), finding("crash"), False),
        (incident(run=None, klass="correlated_loss"), finding("correlated_loss", run=None), True),
    ],
)
def test_what_belongs_to_one_incident(known, found, same):
    assert same_incident(known, found) is same


def test_seven_launches_that_fail_are_one_incident():
    assert all(same_incident(incident(), finding("crash", attempt=number)) for number in range(1, 8))


@pytest.mark.parametrize(
    "klass",
    ["fail_slow", "loss_anomaly", "capacity", "spares_low", "environment_drift", "scheduler", "checkpoint_overdue"],
)
def test_what_the_run_survives_neither_swallows_a_crash_nor_is_swallowed(klass):
    assert not same_incident(incident(klass=klass), finding("crash"))
    assert not same_incident(incident(), finding(klass))
    assert same_incident(incident(klass=klass, entities=frozenset({"run"})), finding(klass))


def test_two_nodes_in_two_conflicts_are_two_incidents():
    known = incident(klass="identity_conflict", entities=frozenset({"node:n1"}))
    assert same_incident(known, finding("identity_conflict", entity="node:n1"))
    assert not same_incident(known, finding("identity_conflict", entity="node:n2"))


def test_idle_machines_that_break_are_each_an_incident_of_the_fleet():
    known = incident(run=None, klass="gpu_fault", entities=frozenset({"node:n1"}))
    assert same_incident(known, finding("gpu_fault", run=None, entity="node:n1"))
    assert not same_incident(known, finding("gpu_fault", run=None, entity="node:n2"))


def test_the_same_failure_after_mitigation_opens_the_incident_again():
    known = incident(state="mitigated", fingerprints=frozenset({"crash:SIGSEGV"}))
    back = finding("crash", attempt=2, facts={"fingerprint": "SIGSEGV"})
    assert same_incident(known, back)
    assert comes_again(known, back)
    assert not same_incident(known, finding("crash", attempt=2, facts={"fingerprint": "SIGBUS"}))


def test_a_full_disk_to_come_is_not_a_storage_that_stopped_the_run():
    warning = finding("storage_stall", severity="warning")
    assert not same_incident(incident(), warning)
    assert same_incident(incident(), finding("storage_stall"))
    assert not same_incident(incident(), finding("crash", severity="info"))
    assert same_incident(incident(), finding("node_lost", severity="warning", stage=Stage.SUSPECT))


def test_a_poisoned_checkpoint_becomes_an_incident_of_its_own():
    poison = finding("checkpoint_poison", entity="checkpoint:300", attempt=3)
    assert not same_incident(incident(attempt=2), poison)
    assert opens_anew(incident(), poison)
    assert same_incident(incident(klass="checkpoint_poison"), poison)
    assert same_incident(incident(klass="checkpoint_poison", attempt=3), finding("crash", attempt=3))
