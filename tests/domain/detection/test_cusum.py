from random import Random

import pytest

from controlplane.domain.detection.cusum import Chart, capped, robust_sigma, run_length

MAIN = Chart(k=0.025, h=8)
FLOOR = 0.005


def speaks_at(chart, excesses, sigma=FLOOR):
    total = 0.0
    for number, excess in enumerate(excesses, 1):
        total = chart.add(total, excess, sigma)
        if chart.speaks(total, sigma):
            return number
    return None


def test_the_published_slow_down_is_found_on_its_sixth_slow_step():
    times = [105.16, 105.17, 106.25, 110.17, *[111.14] * 10]
    excesses = [seconds / 105.2 - 1 for seconds in times]
    assert speaks_at(MAIN, excesses) == 3 + 6


@pytest.mark.parametrize("drop", [0.04, 0.05, 0.1, 0.5, 3.0])
def test_a_slow_down_is_found_within_six_to_ten_steps_however_large_it_is(drop):
    assert 6 <= speaks_at(MAIN, [drop] * 20) <= 10


def test_one_late_step_however_late_adds_no_more_than_four_deviations():
    assert capped(50.0, k=0.025, sigma=0.01) == pytest.approx(0.04)
    assert capped(50.0, k=0.025, sigma=0.005) == pytest.approx(0.0325)
    assert speaks_at(MAIN, [50.0, 0.0, 0.0] * 100) is None


def test_small_deviations_are_never_an_alarm():
    assert speaks_at(MAIN, [0.024] * 10_000) is None


def test_a_day_of_normal_noise_is_no_alarm():
    noise = Random(3)
    assert speaks_at(MAIN, [noise.gauss(0, 0.01) for _ in range(5_000)], sigma=0.01) is None


@pytest.mark.parametrize(("height", "table"), [(4, 336), (5, 930)])
def test_the_formula_of_the_run_length_agrees_with_the_published_table(height, table):
    assert run_length(0.5, height) == pytest.approx(table, rel=0.01)


def test_the_chart_has_the_run_length_that_the_formula_gives():
    noise, chart, lengths = Random(1), Chart(k=0.5, h=4), []
    for _ in range(150):
        total, count = 0.0, 0
        while not chart.speaks(total, 1.0):
            total, count = chart.add(total, noise.gauss(0, 1), 1.0), count + 1
        lengths.append(count)
    assert sum(lengths) / len(lengths) == pytest.approx(run_length(0.5, 4), rel=0.2)


def test_the_scatter_is_that_of_the_normal_steps_whatever_a_few_late_ones_took():
    noise = Random(2)
    values = [100 * (1 + noise.gauss(0, 0.01)) for _ in range(500)] + [400.0] * 20
    assert robust_sigma(values, 100.0) / 100 == pytest.approx(0.01, rel=0.15)
