import pytest

from controlplane.domain.fleet.hunt import benchmark_repeats, exclusion_plan, trial_steps


@pytest.mark.parametrize(
    ("nodes", "spares", "expected"),
    [(48, 3, 10.10), (48, 4, 8.42), (48, 8, 6.33), (128, 3, 23.48), (128, 4, 18.47), (1024, 18, 33.15), (48, 24, 5.67)],
)
def test_the_expected_number_of_starts_is_that_of_the_best_plan(nodes, spares, expected):
    assert exclusion_plan(nodes, spares).expected == pytest.approx(expected, abs=0.005)


def test_the_first_start_leaves_out_as_many_as_there_are_spares_then_the_suspects_are_halved():
    assert exclusion_plan(48, 3).leave_out == 3
    assert exclusion_plan(4, 3).leave_out == 2
    assert exclusion_plan(2, 3).leave_out == 1


def test_the_worst_case_is_never_better_than_halving_allows():
    plan = exclusion_plan(48, 3)
    assert plan.expected <= plan.worst <= 18
    assert exclusion_plan(1, 3).worst == 0


@pytest.mark.parametrize(("nodes", "spares"), [(48, 0), (0, 3), (100_000, 3)])
def test_a_search_that_cannot_be_done_is_refused(nodes, spares):
    with pytest.raises(ValueError, match="spare"):
        exclusion_plan(nodes, spares)


@pytest.mark.parametrize(("sigma", "repeats"), [(0.005, [2, 2, 2]), (0.01, [6, 6, 7]), (0.015, [13, 14, 16])])
def test_a_benchmark_is_repeated_as_often_as_noise_and_fleet_demand(sigma, repeats):
    assert [benchmark_repeats(nodes, sigma=sigma, delta=0.025) for nodes in (48, 128, 1024)] == repeats


@pytest.mark.parametrize(("sigma", "repeats"), [(0.005, 1), (0.01, 2), (0.015, 4)])
def test_a_larger_loss_needs_fewer_repeats(sigma, repeats):
    assert benchmark_repeats(48, sigma=sigma, delta=0.05) == repeats


def test_a_trial_takes_only_a_few_steps():
    assert (trial_steps(sigma=0.01, drop=0.05), trial_steps(sigma=0.01, drop=0.025)) == (2, 5)
