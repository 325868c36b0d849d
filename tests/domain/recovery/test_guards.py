import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.domain.detection.policy import RunPolicy
from controlplane.domain.recovery.guards import (
    TokenBucket,
    backoff_s,
    node_budget,
    runs_at_once,
    unsettled,
    within_share,
)

POLICY = RunPolicy()


def test_four_restarts_may_follow_each_other_and_the_fifth_waits():
    bucket, taken = TokenBucket.full(POLICY, 0.0), []
    for second in range(5):
        ok, bucket = bucket.take(float(second))
        taken.append(ok)
    assert taken == [True, True, True, True, False]
    assert bucket.next_token_s(4.0) == pytest.approx(1796)


def test_a_crash_loop_gets_at_most_seven_launches_in_its_first_hour():
    bucket, launches = TokenBucket.full(POLICY, 0.0), 0
    for second in range(3600):
        ok, bucket = bucket.take(float(second))
        launches += ok
    assert launches <= 7


def test_a_clock_that_goes_back_earns_and_loses_nothing():
    _, bucket = TokenBucket.full(POLICY, 1000.0).take(1000.0)
    assert bucket.at(10.0).tokens == bucket.tokens
    assert bucket.at(10.0).refilled_at == 1000.0


@given(st.lists(st.floats(0, 10_000), max_size=40).map(sorted))
def test_tokens_stay_between_nothing_and_the_capacity(times):
    bucket = TokenBucket.full(POLICY, 0.0)
    for at in times:
        _, bucket = bucket.take(at)
        assert 0 <= bucket.tokens <= bucket.capacity


def test_pauses_double_up_to_half_an_hour():
    assert [backoff_s(count, POLICY) for count in range(9)] == [0, 30, 60, 120, 240, 480, 960, 1800, 1800]
    assert backoff_s(10**6, POLICY) == 1800


@pytest.mark.parametrize(("nodes", "budget"), [(1, 1), (4, 1), (10, 1), (40, 4), (128, 12)])
def test_one_node_may_always_be_replaced(nodes, budget):
    assert node_budget(nodes, POLICY) == budget
    assert within_share(["n"] * budget, nodes, POLICY)
    assert not within_share(["n"] * (budget + 1), nodes, POLICY)


def test_pauses_shrink_only_after_a_checkpoint_and_half_an_hour():
    launches = [0.0, 100.0, 200.0]
    assert unsettled(launches, [], 5000.0, POLICY) == 3
    assert unsettled(launches, [250.0], 1000.0, POLICY) == 3
    assert unsettled(launches, [250.0], 2000.0, POLICY) == 0
    assert unsettled(launches, [], 90_000.0, POLICY) == 3


def test_a_restart_that_held_ends_the_count_of_those_before_it():
    assert unsettled([0.0, 100.0, 4000.0], [1500.0], 4010.0, POLICY) == 1
    assert unsettled([0.0, 100.0, 4000.0], [50.0], 4010.0, POLICY) == 3


@pytest.mark.parametrize(("runs", "most"), [(1, 2), (20, 2), (50, 5)])
def test_two_runs_or_a_tenth_of_them_may_be_acted_on_at_once(runs, most):
    assert runs_at_once(runs) == most
