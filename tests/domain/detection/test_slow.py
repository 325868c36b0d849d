"""When a run counts as slow, and when it does not (methods 3)."""

import json
from random import Random

import pytest

from controlplane.domain.detection.policy import RunPolicy
from controlplane.domain.detection.run import RunMachine
from tests.domain.detection.pace import BLOOM, Pace


def trained(steps=200, **words):
    pace = Pace(**words)
    pace.launch()
    pace.steps(steps)
    return pace


def slowed(pace=None, steps=20):
    pace = pace or trained()
    for seconds in [*BLOOM, *[111.14] * (steps - len(BLOOM))]:
        pace.step(seconds)
    return pace


def test_the_published_slow_down_opens_on_its_sixth_slow_step():
    pace = slowed(steps=8)
    assert pace.found == []
    pace.step(111.14)
    assert (pace.last.stage, pace.last.severity, pace.last.entity) == ("suspect", "warning", "run")
    assert pace.last.facts["onset_step"] == 204
    assert pace.last.facts["drop"] == pytest.approx(0.056, abs=0.002)


def test_a_slow_down_that_lasts_ten_steps_is_confirmed_and_blames_nobody_without_the_ranks_times():
    pace = slowed(steps=40)
    assert pace.stages() == ["suspect", "confirmed"]
    assert pace.last.evidence == ()
    assert "5.6% slower since step 204" in pace.last.sentence
    assert "no rank's own times" in pace.last.sentence


def test_a_run_that_is_as_fast_as_before_for_twenty_steps_is_told_to_be_well_once():
    pace = slowed(steps=30)
    pace.steps(60)
    assert pace.stages() == ["suspect", "confirmed", "cleared"]
    assert pace.last.severity == "info"
    assert len({item.key for item in pace.found}) == 1


def test_a_second_slow_down_is_another_finding():
    pace = slowed(steps=30)
    pace.steps(40)
    slowed(pace)
    assert pace.stages() == ["suspect", "confirmed", "cleared", "suspect", "confirmed"]
    assert len({item.key for item in pace.found}) == 2


def test_more_than_a_tenth_is_critical():
    pace = trained()
    pace.steps(15, slower=0.14)
    assert (pace.last.stage, pace.last.severity) == ("confirmed", "critical")


def test_nothing_is_judged_before_sixty_steps_are_known():
    pace = Pace()
    pace.launch()
    pace.steps(40)
    pace.steps(14, slower=0.06)
    assert pace.found == []


def test_a_small_loss_that_lasts_is_told_and_nothing_else():
    pace = trained(steps=300)
    pace.steps(90, slower=0.02)
    assert [(item.stage, item.severity, item.facts["notice"]) for item in pace.found] == [("suspect", "info", True)]


def test_late_steps_however_many_are_not_a_slow_run():
    pace, chance = trained(), Random(5)
    for _ in range(600):
        pace.step(pace.usual * (2.8 if chance.random() < 0.05 else 1.0))
    assert pace.found == []


def test_thirty_days_of_heavy_tailed_noise_at_ten_minutes_a_step_confirm_nothing():
    chance, pace = Random(7), Pace(ranks=1, noise=0)
    pace.launch()
    pace.sweep = lambda: None
    for _ in range(4_320):
        late = 0.2 * chance.paretovariate(1.5) if chance.random() < 5e-3 else 0.0
        pace.step(600 * (chance.lognormvariate(0, 0.015) + late))
        assert not pace.machine._state.slow.attempt.alarms
    assert pace.machine.sweep(pace.now) == []


def test_the_warm_up_of_an_attempt_does_not_count():
    pace = trained()
    pace.launch()
    pace.steps(5, slower=0.5)
    pace.steps(100)
    assert pace.found == []


def test_a_step_that_shares_time_with_a_declared_phase_does_not_count():
    pace = trained()
    for _ in range(12):
        pace.send("rank.phase", "n00", 0, phase="save", state="begin")
        pace.now += 10
        pace.send("rank.phase", "n00", 0, phase="save", state="end")
        pace.step(pace.usual, duration_ms=(pace.usual + 10) * 1000)
    assert pace.found == []


def test_a_restart_does_not_make_a_slow_node_the_new_usual():
    pace = slowed(steps=30)
    pace.launch()
    pace.steps(200, slower=0.056)
    assert [(item.attempt, item.stage) for item in pace.found] == [
        (1, "suspect"), (1, "confirmed"), (2, "suspect"), (2, "confirmed"),
    ]  # fmt: skip
    assert pace.last.facts["usual_step_s"] == pytest.approx(105.2, rel=0.003)


def test_a_restart_after_which_the_run_is_well_opens_nothing():
    pace = slowed(steps=30)
    pace.launch()
    pace.steps(200)
    assert {item.attempt for item in pace.found} == {1}


@pytest.mark.parametrize(
    "words", [{"fingerprint": {"git": "another"}}, {"world_size": 40}, {"parameters": {"global_batch_size": 2048}}]
)
def test_other_code_another_world_or_another_batch_has_a_usual_time_of_its_own(words):
    pace = trained()
    pace.launch(**words)
    pace.steps(200, slower=0.3)
    assert pace.found == []


def test_a_larger_batch_in_mid_run_is_judged_by_the_token():
    pace = Pace()
    pace.launch()
    pace.steps(200, tokens=4_000_000)
    pace.steps(200, slower=1.0, tokens=8_000_000)
    assert pace.found == []
    pace.steps(20, slower=1.12, tokens=8_000_000)
    assert pace.last.facts["usual_step_s"] == pytest.approx(210.4, rel=0.003)


def test_a_sequence_length_that_grows_slowly_is_no_slow_run():
    pace = Pace()
    pace.launch()
    for number in range(400):
        factor = 1 + number / 4000
        pace.steps(1, slower=factor - 1, tokens=4_000_000 * factor)
    assert pace.found == []


def test_short_steps_must_be_slow_for_a_minute():
    pace = trained(usual=1.0)
    pace.steps(40, slower=0.2)
    assert pace.found == []
    pace.steps(30, slower=0.2)
    assert pace.stages() == ["confirmed"]


def test_the_order_of_arrival_and_repetitions_change_no_verdict():
    def story():
        pace = Pace(ranks=8)
        pace.held = []
        pace.launch()
        pace.train(10)
        pace.train(5, slower=0.056, compute={6: 0.06}, wait={"all": 5_880})
        return pace.held

    straight, mixed = RunMachine("bloom", RunPolicy()), RunMachine("bloom", RunPolicy())
    signals, chance = story(), Random(11)
    for signal in signals:
        straight.observe(signal, signal.received)
    twice = [(place + 12 * chance.random(), signal) for place, signal in enumerate(signals) for _ in range(2)]
    for _, signal in sorted(twice, key=lambda pair: pair[0]):
        mixed.observe(signal, signal.received)
    now = signals[-1].received
    assert _said(straight.sweep(now)) == _said(mixed.sweep(now)) != []


def _said(found):
    return [
        (item.key, item.stage, item.sentence, item.began, item.evidence) for item in found if item.klass == "fail_slow"
    ]


def test_a_snapshot_goes_on_exactly():
    pace = slowed(trained(ranks=8), steps=7)
    pace.machine = RunMachine.restore(json.loads(json.dumps(pace.machine.snapshot())), RunPolicy())
    pace.step(111.14)
    assert pace.found == []
    pace.step(111.14)
    assert pace.stages() == ["suspect"]


def test_a_hidden_restart_inside_the_attempt_is_judged_anew_from_its_step():
    pace = trained()
    pace.number = 100
    pace.steps(30, slower=0.08)
    assert pace.stages() == ["suspect", "confirmed"]


def test_strange_values_are_not_measured():
    pace = trained(steps=100, ranks=4)
    for wrong in ("nan", -5, None, [1], 1e300, True):
        pace.step(pace.usual, duration_ms=wrong, tokens=wrong)
        pace.send("rank.window", "n00", 0, first_step=wrong, last_step=wrong, compute_ms=wrong)
        pace.send("rank.window", "n00", 70_000, last_step=120, compute_ms=5)
        pace.send("rank.started", "n00", 1, groups=wrong)
        pace.send("attempt.started", fingerprint=wrong, parameters={"batch": wrong}, world_size=48)
    assert pace.found == []
