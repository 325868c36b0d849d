import pytest

from controlplane.domain.diagnosis.classes import CLASSES, Family, class_of, explains, rank_of

OF_THE_WIRE = [
    "gpu_fault",
    "node_lost",
    "correlated_loss",
    "hang",
    "crash",
    "crash_no_exit",
    "crash_loop",
    "workload_error",
    "fail_slow",
    "checkpoint_overdue",
    "checkpoint_incomplete",
    "checkpoint_poison",
    "restore_stall",
    "resume_mismatch",
    "loss_anomaly",
    "storage_stall",
    "network_fault",
    "scheduler",
    "capacity",
    "spares_low",
    "environment_drift",
    "host_memory",
    "restore_failed",
    "identity_conflict",
    "check_broken",
    "telemetry_lost",
    "blind",
]


def test_every_class_of_the_wire_format_is_described_and_no_other():
    assert set(CLASSES) == set(OF_THE_WIRE)


@pytest.mark.parametrize("item", CLASSES.values(), ids=lambda item: item.name)
def test_a_class_has_words_for_a_person(item):
    assert item.title
    assert len(item.meaning.split()) > 4
    assert not item.meaning.endswith(".")
    assert item.severity in ("info", "warning", "critical")


@pytest.mark.parametrize("item", CLASSES.values(), ids=lambda item: item.name)
def test_what_a_class_explains_is_further_from_the_cause(item):
    assert item.explains <= set(CLASSES)
    stops = [name for name in item.explains if CLASSES[name].family is Family.STOP]
    assert all(rank_of(item.name) < rank_of(name) for name in stops)


@pytest.mark.parametrize("cause", ["gpu_fault", "node_lost", "correlated_loss", "storage_stall"])
def test_a_hang_and_a_crash_follow_from_what_took_the_machines(cause):
    assert explains(cause, "hang")
    assert explains(cause, "crash")


def test_nothing_is_explained_by_a_symptom_of_itself():
    assert not any(explains(name, name) for name in CLASSES)


def test_an_unknown_class_advises_and_comes_last():
    assert class_of("of_a_later_version").family is Family.ADVICE
    assert rank_of("of_a_later_version") == len(CLASSES)
