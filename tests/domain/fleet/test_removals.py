"""How fast automation may empty a fleet (methods 8)."""

import pytest

from controlplane.domain.fleet import removals


@pytest.mark.parametrize(("nodes", "many"), [(20, 4), (128, 4), (1024, 20)])
def test_the_bucket_holds_four_or_two_percent(nodes, many):
    now = 1e6
    assert removals.bucket(nodes, [now] * (many - 1), now).has_token(now)
    assert not removals.bucket(nodes, [now] * many, now).has_token(now)


def test_one_percent_of_the_nodes_is_earned_back_each_hour():
    now = 1e6
    empty = removals.bucket(1024, [now] * 20, now)
    assert empty.next_token_s(now) == pytest.approx(3600 / 10.24)
    assert removals.bucket(1024, [now] * 20, now + 3600).tokens == pytest.approx(10.24)


def test_what_lies_beyond_the_horizon_is_forgotten_without_a_trace():
    now = 1e9
    old = now - removals.horizon_s(20) - 1
    assert removals.bucket(20, [], now).tokens == removals.bucket(20, [old], now).tokens == 4
