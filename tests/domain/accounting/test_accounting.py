from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.domain.accounting.goodput import AttemptWork, Step, goodput
from controlplane.domain.accounting.intervals import Label, Span, partition, totals
from controlplane.domain.accounting.losses import losses

spans = st.lists(
    st.builds(Span, st.integers(-50, 150), st.integers(-50, 150), st.sampled_from(list(Label))), max_size=25
)
window = st.tuples(st.integers(0, 50), st.integers(50, 100))


@given(spans, window)
def test_the_labels_add_up_to_the_window_exactly(claims, bounds):
    sums = totals(claims, *bounds)
    assert sum(sums.values()) == bounds[1] - bounds[0]
    assert min(sums.values()) >= 0


@given(spans, window, st.randoms())
def test_the_order_of_the_claims_and_duplicates_change_nothing(claims, bounds, random):
    shuffled = random.sample(claims, len(claims)) + claims[:3]
    assert totals(shuffled, *bounds) == totals(claims, *bounds)


@given(spans, window, st.integers(0, 100))
def test_adjacent_windows_add_up(claims, bounds, share):
    begin, end = bounds
    middle = begin + (end - begin) * share // 100
    whole, left, right = totals(claims, begin, end), totals(claims, begin, middle), totals(claims, middle, end)
    assert whole == {label: left[label] + right[label] for label in Label}


@given(spans, window)
def test_the_parts_neither_overlap_nor_leave_a_gap(claims, bounds):
    parts = partition(claims, *bounds)
    assert [part.begin for part in parts[1:]] == [part.end for part in parts[:-1]]
    assert all(first.label is not second.label for first, second in pairwise(parts))


def test_the_stronger_claim_wins_where_two_overlap():
    claims = [Span(0, 10, Label.TRAIN_SAFE), Span(4, 6, Label.OUTAGE)]
    assert totals(claims, 0, 10)[Label.OUTAGE] == 2
    assert totals(claims, 0, 10)[Label.TRAIN_SAFE] == 8


def seconds(*spans_s):
    return [Span(begin * 1000, end * 1000, label) for begin, end, label in spans_s]


def made(first, count, begin_s):
    return [
        Step(first + place, (begin_s + 100 * place) * 1000, (begin_s + 100 * (place + 1)) * 1000)
        for place in range(count)
    ]


CRASHED = AttemptWork(number=1, resume_step=0, steps=[*made(1, 10, 0), *made(11, 6, 1040), Step(17, 1640000, 1690000)])
AFTER_SAVE_S = 1690
OTHER = seconds(
    (1000, 1040, Label.SAVE_BLOCKING),
    (1690, 1750, Label.DETECT),
    (1750, 1780, Label.WAIT_APPROVAL),
    (1780, 1960, Label.REPLACE),
    (1960, 2260, Label.RESTORE),
    (2260, 2460, Label.WARMUP),
)


def test_the_known_example_of_a_crash_comes_out_exactly():
    account = goodput(
        [CRASHED, AttemptWork(number=2, resume_step=10, steps=[])], begin=0, end=2460000, durable_step=10, other=OTHER
    )
    assert account.by_label_ms[Label.TRAIN_SAFE] == 1000000
    assert account.by_label_ms[Label.TRAIN_LOST] == 650000
    assert account.elapsed_ms - 1650000 == 810000
    assert account.safe == pytest.approx(0.4065, abs=5e-5)
    assert account.lost_steps == 7


def test_ten_more_steps_raise_the_share_and_change_no_total():
    second = AttemptWork(number=2, resume_step=10, steps=made(11, 10, 2460))
    account = goodput([CRASHED, second], begin=0, end=3460000, durable_step=10, other=OTHER)
    assert account.by_label_ms[Label.TRAIN_SAFE] + account.by_label_ms[Label.TRAIN_AT_RISK] == 2000000
    assert account.productive == pytest.approx(0.5780, abs=5e-5)
    assert account.safe == pytest.approx(1000 / 3460)
    assert account.lost_gpu_hours(gpus=2) == pytest.approx(2 * 1460 / 3600)


def test_a_later_save_moves_work_from_risk_to_safety_only():
    second = AttemptWork(number=2, resume_step=10, steps=made(11, 10, 2460))
    before = goodput([CRASHED, second], begin=0, end=3460000, durable_step=10, other=OTHER)
    after = goodput([CRASHED, second], begin=0, end=3460000, durable_step=20, other=OTHER)
    assert after.by_label_ms[Label.TRAIN_AT_RISK] == 0
    assert after.productive == before.productive


def test_losses_are_measured_once_the_run_has_caught_up():
    cost = losses(last_step=152, restore_step=140, last_progress_at=1000.0, caught_up_at=1018.0, now=2000.0, gpus=4)
    assert (cost.steps, cost.seconds, cost.confidence) == (12, 18.0, "measured")
    assert cost.gpu_hours == pytest.approx(4 * 18 / 3600)


def test_losses_are_only_bounded_while_the_run_has_not_caught_up():
    cost = losses(last_step=152, restore_step=None, last_progress_at=1000.0, caught_up_at=None, now=1060.0, gpus=8)
    assert (cost.steps, cost.seconds, cost.confidence) == (0, 60.0, "bounded")


def test_losses_of_a_run_that_never_stepped_are_unknown():
    cost = losses(last_step=None, restore_step=None, last_progress_at=None, caught_up_at=None, now=1.0, gpus=8)
    assert cost.as_facts() == {"steps": 0, "seconds": 0.0, "gpu_hours": 0.0, "confidence": "unknown"}
