import pytest

from tests.domain.stage import Stage


def with_long_steps(every, seconds, last, usual=30.0):
    stage = Stage()
    stage.launch()
    for number in range(1, last + 1):
        stage.train(number, number, seconds if number % every == 0 and number > 30 else usual, every=15.0)
    return stage


def test_long_steps_at_a_regular_distance_are_told_as_a_phase_to_declare():
    stage = with_long_steps(20, 60.0, 110)
    assert stage.machine.view().undeclared == (
        "every 20 steps one takes 60 s; a declared phase would give it a deadline of its own"
    )
    assert stage.log == []


def test_the_step_that_is_expected_to_be_long_has_a_deadline_of_its_kind():
    stage = with_long_steps(20, 60.0, 119)
    assert stage.machine.view().deadline_s == pytest.approx(3 * 60 - 5)
    stage.train(120, 120, 60.0, every=15.0)
    assert stage.machine.view().deadline_s == pytest.approx(3 * 30 - 5)


def test_long_steps_without_a_rhythm_are_no_phase():
    stage = Stage()
    stage.launch()
    for number in range(1, 120):
        stage.train(number, number, 60.0 if number in (41, 52, 88, 103) else 30.0, every=15.0)
    assert stage.machine.view().undeclared == ""


def test_long_steps_inside_a_declared_phase_are_declared_already():
    stage = Stage()
    stage.launch()
    for number in range(1, 111):
        long = number % 20 == 0 and number > 30
        if long:
            stage.rank("rank.phase", 0, phase="save", state="begin")
        stage.wait(60 if long else 30, every=15.0)
        if long:
            stage.rank("rank.phase", 0, phase="save", state="end")
        stage.step(number, 60.0 if long else 30.0)
    assert stage.machine.view().undeclared == ""
