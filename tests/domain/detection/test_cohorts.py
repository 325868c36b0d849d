"""Who makes a slow run slow, and when nobody is named (methods 3, locate a)."""

import re

import pytest

from tests.domain.detection.pace import COMPUTE_MS, Pace

LOST = 0.056
LATER_MS = 0.06 * COMPUTE_MS
WAITS = {"all": LATER_MS}


def trained(windows=6, **words):
    pace = Pace(**words)
    pace.launch()
    pace.train(windows)
    return pace


def test_the_rank_that_computes_longest_and_waits_least_is_named_with_its_node_after_three_windows():
    pace = trained()
    pace.train(2, slower=LOST, compute={29: 0.06}, wait=WAITS)
    assert pace.blamed() == set()
    pace.train(1, slower=LOST, compute={29: 0.06}, wait=WAITS)
    (line,) = pace.last.evidence
    assert (line.entity, line.weight) == ("node:n07", 4.0)
    assert re.search(r"rank 29 on node n07 computes [56]\.\d+ s longer than its peers \([56]\.\d%\)", line.text)
    assert (pace.last.stage, pace.last.entity, pace.last.facts["places"]) == ("confirmed", "node:n07", {"29": "n07"})
    assert pace.last.facts["located"]


def test_a_rank_that_computes_several_times_as_long_is_told_so_and_not_in_hundreds_of_percent():
    pace = trained()
    pace.train(3, slower=1.86, compute={29: 2.0}, wait={"all": 196_000})
    assert re.search(r"computes 19\d s longer than its peers \(3\.0 times as long\)", pace.last.sentence)


def test_of_48_ranks_the_one_that_is_five_percent_slower_stands_out_alone():
    pace = trained()
    pace.train(1, slower=0.05, compute={17: 0.05}, wait=WAITS)
    assert set(pace.machine._state.slow.attempt.windows[-1].flagged) == {17}


def test_a_named_rank_stays_named_and_is_told_once():
    pace = trained()
    pace.train(5, slower=LOST, compute={29: 0.06}, wait=WAITS)
    assert len([item for item in pace.found if item.evidence]) == 1


def test_a_rank_that_is_another_one_in_each_window_is_not_named():
    pace = trained()
    for number in range(8):
        pace.train(1, slower=LOST, compute={(number * 7) % 48: 0.06}, wait=WAITS)
    assert pace.blamed() == set()


def test_a_slow_rank_in_a_run_that_is_not_slow_is_nobodys_business():
    pace = trained()
    pace.train(6, compute={29: 0.06})
    assert pace.found == []


def test_a_rank_that_was_always_slower_does_not_explain_a_new_slow_down():
    pace = Pace()
    pace.launch()
    pace.train(6, compute={5: 0.03})
    pace.train(5, slower=LOST, compute={5: 0.03}, wait=WAITS)
    assert pace.blamed() == set()


def test_when_all_wait_longer_and_none_computes_longer_the_network_is_slow_and_nobody_is_blamed():
    pace = trained()
    pace.train(4, slower=LOST, wait=WAITS)
    assert "the network is slow" in pace.last.sentence
    assert (pace.last.facts["network"], pace.last.facts["located"], pace.blamed()) == (True, False, set())


def test_a_culprit_without_enough_own_gain_is_not_called_the_network_either():
    pace = trained()
    pace.train(4, slower=LOST, wait={"all": 1_000})
    assert pace.last.facts["network"] is False
    assert "name no node" in pace.last.sentence


def test_when_all_compute_longer_no_node_stands_out():
    pace = trained()
    pace.train(4, slower=LOST, compute=dict.fromkeys(range(48), 0.06))
    assert "all ranks compute more slowly" in pace.last.sentence
    assert pace.blamed() == set()


def test_grown_data_times_speak_against_the_data_loader():
    pace = trained()
    pace.train(4, slower=LOST, data={"all": LATER_MS})
    assert pace.blamed() == {"data"}
    assert "the data loader is slow" in pace.last.sentence


def test_the_data_loader_of_one_rank_is_told_as_such_and_its_node_is_not_blamed():
    pace = trained()
    pace.train(4, slower=LOST, data={29: LATER_MS}, wait=WAITS)
    assert pace.blamed() == {"data"}
    assert "the data loader of rank 29" in pace.last.sentence


def test_without_compute_times_what_of_a_step_was_not_waiting_counts():
    pace = Pace()
    pace.launch()
    pace.train(6, least=("compute_ms", "data_ms"))
    pace.train(4, slower=LOST, compute={29: 0.06}, wait=WAITS, least=("compute_ms", "data_ms"))
    assert pace.blamed() == {"node:n07"}


def test_all_ranks_of_a_slow_node_are_one_culprit():
    pace = trained()
    pace.train(4, slower=LOST, compute=dict.fromkeys(range(28, 32), 0.06), wait=WAITS)
    assert pace.blamed() == {"node:n07"}
    assert "3 more of its ranks" in pace.last.sentence


def test_of_two_slow_nodes_the_slower_is_named_first():
    pace = trained()
    pace.train(4, slower=LOST, compute={29: 0.055, 5: 0.065}, wait=WAITS)
    assert pace.blamed() == {"node:n01"}


def test_many_nodes_that_became_slow_at_once_are_no_single_nodes_fault():
    pace = trained()
    pace.train(4, slower=LOST, compute=dict.fromkeys((1, 5, 9, 13, 17), 0.06), wait=WAITS)
    assert pace.blamed() == set()


@pytest.mark.parametrize("size", [5, 10, 20])
def test_the_length_of_the_reported_windows_does_not_matter(size):
    pace = Pace()
    pace.launch()

    def train(steps, slower=0.0, **reports):
        for _ in range(steps // size):
            pace.steps(size, slower)
            pace.window(size=size, **reports)

    train(120)
    train(40, slower=LOST, compute={29: 0.06}, wait=WAITS)
    assert pace.blamed() == set()
    train(40, slower=LOST, compute={29: 0.06}, wait=WAITS)
    assert pace.blamed() == {"node:n07"}


def test_pipeline_stages_are_not_compared_with_each_other():
    pace = Pace()
    pace.groups = {rank: {"pp": rank // 24, "tp": 0} for rank in range(48)}
    pace.launch()
    last = dict.fromkeys(range(24, 48), 0.08)
    pace.train(6, compute=last)
    pace.train(4, slower=LOST, compute=last | {3: 0.06}, wait=WAITS)
    assert pace.blamed() == {"node:n00"}


def test_a_rank_with_too_few_peers_is_compared_with_itself():
    pace = Pace(ranks=3, per_node=1)
    pace.launch()
    pace.train(6, compute={0: 0.05})
    pace.train(4, slower=LOST, compute={0: 0.05, 1: 0.06})
    assert pace.blamed() == {"node:n01"}


def test_a_window_that_not_all_ranks_reported_is_judged_when_the_next_one_comes():
    pace = trained()
    for _ in range(4):
        pace.steps(20, LOST)
        pace.window(compute={29: 0.06}, wait=WAITS, only=[rank for rank in range(48) if rank != 11])
    assert pace.blamed() == {"node:n07"}


def test_after_the_culprit_left_the_next_attempt_is_well_and_blames_nobody_new():
    pace = trained()
    pace.train(4, slower=LOST, compute={29: 0.06}, wait=WAITS)
    pace.launch()
    pace.train(6)
    assert {item.attempt for item in pace.found} == {1}
    assert pace.blamed() == {"node:n07"}


def test_the_second_of_two_culprits_is_named_after_the_first_was_left_out():
    pace = trained()
    pace.train(4, slower=0.06, compute={29: 0.065, 5: 0.06}, wait=WAITS)
    pace.launch()
    pace.train(6, slower=LOST, compute={5: 0.06}, wait=WAITS)
    assert pace.blamed() == {"node:n07", "node:n01"}
    assert pace.last.attempt == 2


def test_a_window_of_steps_that_the_run_is_far_from_is_not_believed():
    pace = trained()
    for _ in range(5):
        for ahead in range(10):
            last = 10**12 + ahead * 20
            pace.send("rank.window", "n03", 13, first_step=last - 19, last_step=last, compute_ms=1, wait_ms=1)
        pace.train(1, slower=LOST, compute={29: 0.06}, wait=WAITS)
    assert pace.blamed() == {"node:n07"}


def test_late_steps_of_an_earlier_attempt_and_windows_of_no_rank_change_nothing():
    pace = trained()
    pace.launch()
    before = pace.machine.snapshot()["state"]["slow"]
    pace.attempt = 1
    pace.send("rank.step", "n00", 0, step=500, duration_ms=200_000)
    pace.send("rank.window", "n00", None, first_step=1, last_step=20, compute_ms=5)
    pace.attempt = 2
    pace.send("rank.window", "n00", 0, first_step=1, last_step=20)
    assert pace.machine.snapshot()["state"]["slow"] == before
