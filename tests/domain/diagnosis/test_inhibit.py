import pytest

from controlplane.domain.diagnosis.inhibit import HELD_BEFORE, OVER_AT, WINDOW_S, is_consequence, lead, symptom
from controlplane.domain.findings import Stage
from tests.domain.diagnosis.test_diagnose import NOW, finding


@pytest.mark.parametrize("cause", ["gpu_fault", "node_lost", "storage_stall", "correlated_loss"])
@pytest.mark.parametrize("after", ["hang", "crash", "crash_no_exit"])
def test_a_symptom_within_the_window_follows_from_the_cause(cause, after):
    assert is_consequence(finding(after, began=NOW + 60), finding(cause))
    assert lead([finding(after, key="a"), finding(cause, key="b")]).klass == cause


def test_the_order_of_detection_does_not_matter_within_the_window():
    assert is_consequence(finding("crash", began=NOW - WINDOW_S + 1), finding("gpu_fault"))
    assert not is_consequence(finding("crash", began=NOW - WINDOW_S - 1), finding("gpu_fault"))


def test_a_suspicion_explains_nothing():
    assert not is_consequence(finding("crash"), finding("node_lost", stage=Stage.SUSPECT))


def test_what_was_over_long_before_explains_nothing():
    over = finding("storage_stall", stage=Stage.CLEARED, facts={HELD_BEFORE: True, OVER_AT: NOW})
    assert is_consequence(finding("crash", began=NOW + WINDOW_S), over)
    assert not is_consequence(finding("crash", began=NOW + WINDOW_S + 1), over)


def test_a_crash_loop_explains_crashes_however_far_apart():
    assert is_consequence(finding("crash", began=NOW - 86_400), finding("crash_loop"))


def test_the_symptom_of_the_newest_attempt_tells_how_it_failed():
    early = finding("crash", key="1", attempt=1, facts={"fingerprint": "a"})
    late = finding("hang", key="2", attempt=2, facts={"fingerprint": "b"})
    assert symptom([finding("crash_loop", attempt=2), early, late]) is late


def test_nothing_cannot_be_led():
    with pytest.raises(ValueError, match="nothing"):
        lead([])
