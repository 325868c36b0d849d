"""Strikes and what they ask for (methods 8)."""

import pytest

from controlplane.domain.fleet.strikes import DAY_S, Mark, burn_in_s, needs_repair, offences


def strikes(*days):
    return [Mark(at=day * DAY_S, strike=True) for day in days]


@pytest.mark.parametrize(
    ("days", "now", "count"), [((), 0, 0), ((0,), 29, 1), ((0,), 31, 0), ((0, 1, 2), 40, 2), ((0, 1, 2), 100, 0)]
)
def test_one_offence_is_forgiven_for_every_thirty_clean_days(days, now, count):
    assert offences(strikes(*days), now * DAY_S) == count


def test_on_probation_a_strike_counts_double_and_afterwards_once():
    released = Mark(at=2 * DAY_S, release=True)
    assert offences([*strikes(0, 2.5), released], 3 * DAY_S) == 3
    assert offences([*strikes(0, 3.5), released], 4 * DAY_S) == 2


def test_an_innocent_node_is_on_no_probation():
    assert offences([Mark(at=0, release=True), *strikes(0.5)], DAY_S) == 1


@pytest.mark.parametrize(("count", "hours"), [(1, 2), (2, 8), (3, 32), (4, 72), (99, 72)])
def test_burn_in_grows_fourfold_and_is_capped(count, hours):
    assert burn_in_s(count, hardware=False) == hours * 3600
    assert burn_in_s(count, hardware=True) == max(24, hours) * 3600


@pytest.mark.parametrize(("days", "repair"), [((0,), False), ((0, 6), True), ((0, 8), False), ((0, 10, 20), True)])
def test_two_strikes_in_a_week_or_three_in_a_month_need_a_repair(days, repair):
    assert needs_repair(strikes(*days), days[-1] * DAY_S + 1) is repair
