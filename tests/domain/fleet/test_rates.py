"""Known values of the rates of failures."""

import random

import pytest

from controlplane.domain.fleet.rates import failure_rate, gamma_cdf, gamma_quantile, gamma_rate, garwood, poisson_sf


def test_a_poisson_tail():
    assert poisson_sf(4, 1) == pytest.approx(0.00366, abs=5e-6)
    assert poisson_sf(0, 0.5) == pytest.approx(0.3934693402873666)
    assert poisson_sf(-1, 3) == 1
    assert poisson_sf(5, 0) == 0


def test_a_gamma_distribution_around_what_was_seen():
    rate = gamma_rate(3.5, 10)
    assert rate.mean == pytest.approx(0.35)
    assert (rate.low, rate.high) == (pytest.approx(0.1084, abs=5e-5), pytest.approx(0.7034, abs=5e-5))


def test_the_exact_interval_of_a_count():
    rate = garwood(3, 10)
    assert (rate.low, rate.high) == (pytest.approx(0.0818, abs=5e-5), pytest.approx(0.7754, abs=5e-5))
    assert garwood(0, 10).low == 0


def test_a_fleet_without_history_has_the_rate_of_the_prior():
    assert failure_rate(0, 0, 128).mean == pytest.approx(128 * 6.5e-3)


@pytest.mark.parametrize(("failures", "days", "mean"), [(3, 2, 1.25), (10, 6, 1.53), (90, 56, 1.59)])
def test_the_walk_of_the_estimate_through_a_published_run(failures, days, mean):
    assert failure_rate(failures, days, 128).mean == pytest.approx(mean, abs=0.02)


def test_quantiles_invert_the_distribution():
    chance = random.Random(5)
    for _ in range(50):
        shape, wanted = chance.uniform(0.3, 60), chance.uniform(0.01, 0.99)
        assert gamma_cdf(shape, gamma_quantile(shape, 1, wanted)) == pytest.approx(wanted, abs=1e-9)


def test_the_two_ways_to_sum_the_tail_meet():
    for shape in (0.5, 1, 7, 300):
        assert gamma_cdf(shape, shape + 1 - 1e-9) == pytest.approx(gamma_cdf(shape, shape + 1 + 1e-9), abs=1e-9)
