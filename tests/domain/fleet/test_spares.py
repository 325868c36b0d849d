"""How many spares last until replacements come, and when a person is warned."""

import pytest

from controlplane.domain.findings import Stage
from controlplane.domain.fleet.spares import Pool, effective_lead, judge_spares, needed, recommended, stock_out


@pytest.mark.parametrize(
    ("hours", "spares", "chance"), [(12, 4, 0.0037), (24, 4, 0.053), (48, 4, 0.37), (48, 12, 0.0003)]
)
def test_the_published_chances_of_running_out_at_two_failures_a_day(hours, spares, chance):
    assert stock_out(2, hours / 24, spares) == pytest.approx(chance, rel=0.1)


def test_the_known_value():
    assert stock_out(1, 1, 4) == pytest.approx(0.00366, abs=5e-6)


def test_bad_machines_that_come_back_make_the_lead_time_longer():
    assert effective_lead(8, 0.5) == 16
    assert effective_lead(8, 1.0) < 1000


def test_the_recommendation_is_the_fewest_that_will_do_and_a_burst_comes_on_top():
    for rate in (0.01, 0.5, 2, 40):
        spares = recommended(rate, 1)
        assert stock_out(rate, 1, spares) <= 0.01
        assert spares == 0 or stock_out(rate, 1, spares - 1) > 0.01
        assert recommended(rate, 1, burst=5) == spares + 5


def test_a_hopeless_rate_is_bounded():
    assert recommended(1e9, 1) <= 10_000


def test_enough_spares_say_nothing():
    assert judge_spares(Pool(nodes=128, spares=4, size=4), 0.0) is None


def test_too_few_are_a_warning_with_the_numbers():
    found = judge_spares(Pool(nodes=128, spares=0, size=4), 50.0)
    assert (found.klass, found.stage, found.severity, found.entity) == (
        "spares_low", Stage.CONFIRMED, "warning", "platform",
    )  # fmt: skip
    assert found.sentence.startswith("0 usable spares are left and 2 are needed")
    assert "in 8 h" in found.sentence


def test_a_fleet_that_never_had_a_spare_is_not_warned():
    assert judge_spares(Pool(nodes=128, spares=0, size=0), 0.0) is None
    assert judge_spares(Pool(nodes=0, spares=0, size=3), 0.0) is None


def test_a_small_fleet_needs_none_for_a_short_lead():
    assert needed(Pool(nodes=3, spares=0, size=1)) == 0


def test_the_warning_ends_only_well_above_the_edge():
    pool = {"nodes": 64, "size": 8}
    need, sure = needed(Pool(spares=0, **pool)), needed(Pool(spares=0, **pool), tolerance=0.005)
    assert (need, sure) == (1, 2)
    assert judge_spares(Pool(spares=need - 1, **pool), 1.0).stage is Stage.CONFIRMED
    assert judge_spares(Pool(spares=need, **pool), 1.0) is None
    assert judge_spares(Pool(spares=need, **pool), 9.0, standing=1.0).stage is Stage.CONFIRMED
    ended = judge_spares(Pool(spares=sure, **pool), 9.0, standing=1.0)
    assert (ended.stage, ended.began) == (Stage.CLEARED, 1.0)


def test_a_pool_that_is_full_again_is_enough():
    assert judge_spares(Pool(nodes=64, spares=1, size=1), 9.0, standing=1.0).stage is Stage.CLEARED


def test_a_deleted_fleet_is_warned_once_and_keeps_its_words():
    pool = Pool(nodes=124, spares=0, size=4)
    first, second = judge_spares(pool, 1.0), judge_spares(pool, 1.0, standing=1.0)
    assert first.key == second.key
    assert second.stage is Stage.CONFIRMED
