import pytest

from controlplane.domain.findings import Stage as Sure
from tests.domain.stage import Stage


def training(seconds=105.0, steps=30):
    stage = Stage()
    stage.launch()
    stage.train(1, steps, seconds)
    return stage


def phase(stage, name, state, **data):
    stage.rank("rank.phase", 0, phase=name, state=state, **data)


def evaluate(stage, *, parts, sets=29, seconds=25.0):
    phase(stage, "eval", "begin", total=sets)
    for number in range(1, sets + 1):
        stage.wait(seconds, every=5.0)
        if parts:
            phase(stage, "eval", "progress", done=number, total=sets)
    phase(stage, "eval", "end", done=sets, total=sets)


def stop_in_eval(stage, *, parts):
    """The evaluation freezes after its first data set (BLM-14)."""
    phase(stage, "eval", "begin", total=29)
    if parts:
        stage.wait(25, every=5.0)
        phase(stage, "eval", "progress", done=1, total=29)
    stage.stalled_at = stage.now
    stage.wait(3000, every=1.0)
    return [item.at - stage.stalled_at for item in stage.log]


def test_an_evaluation_that_reports_its_parts_is_suspected_within_three_parts():
    stage = training()
    evaluate(stage, parts=True)
    stage.train(31, 60, 105.0)
    suspect, confirmed = stop_in_eval(stage, parts=True)
    assert (suspect, confirmed) == (pytest.approx(70, abs=1), pytest.approx(140, abs=1))


def test_an_evaluation_that_reports_nothing_is_suspected_after_twice_its_length():
    stage = training()
    evaluate(stage, parts=False)
    stage.train(31, 60, 105.0)
    suspect, confirmed = stop_in_eval(stage, parts=False)
    assert suspect == pytest.approx(2 * 29 * 25, abs=1)
    assert confirmed == pytest.approx(4 * 29 * 25, abs=1)


def test_a_healthy_evaluation_raises_nothing_and_its_time_spoils_no_median():
    stage = training(seconds=20.0)
    evaluate(stage, parts=True)
    stage.step(31, 29 * 25.0)
    stage.train(32, 60, 20.0)
    assert stage.log == []
    assert stage.machine.view().median_step_s == 20.0
    assert stage.machine.view().samples == 60 - 5 - 1


def test_a_blocking_save_has_its_own_deadline():
    stage = training(seconds=20.0)
    phase(stage, "save", "begin")
    stage.wait(119)
    assert stage.log == []
    assert stage.machine.view().waits_for == "save"
    stage.wait(2)
    assert stage.last("hang").facts["waited_for"] == "save"


def test_a_phase_whose_end_was_lost_ends_with_the_next_step():
    stage = training(seconds=20.0)
    phase(stage, "save", "begin")
    stage.train(31, 60, 20.0)
    assert stage.log == []
    assert stage.machine.view().waits_for == "step"


def test_a_restore_without_one_more_byte_is_suspected_after_two_minutes():
    stage = Stage()
    stage.launch()
    phase(stage, "restore", "begin", total=992)
    for done in range(1, 100):
        stage.wait(10, every=5)
        phase(stage, "restore", "progress", done=done, bytes=done * 10**9)
    assert stage.log == []
    stage.wait(121)
    assert stage.last("restore_stall").facts["waited_for"] == "restore"


def test_a_restore_that_never_reports_bytes_gets_ten_minutes():
    stage = Stage()
    stage.launch()
    phase(stage, "restore", "begin")
    stage.wait(599)
    assert stage.log == []
    stage.wait(2)
    assert stage.last("restore_stall").stage == Sure.SUSPECT


def test_the_clock_of_a_restore_starts_when_the_last_rank_has_entered():
    stage = Stage()
    stage.launch()
    for rank in range(4):
        stage.rank("rank.phase", rank, phase="restore", state="begin")
        stage.wait(100)
    stage.wait(499)
    assert stage.log == []
    stage.wait(2)
    assert stage.last("restore_stall").facts["waited_for"] == "restore"


def test_a_slow_compilation_before_the_first_step_is_no_hang():
    stage = Stage()
    stage.launch()
    phase(stage, "compile", "begin")
    stage.wait(890, every=10)
    phase(stage, "compile", "end")
    stage.wait(60, every=10)
    stage.train(1, 30, 5.0)
    assert stage.log == []


def test_a_declared_end_replaces_every_guess():
    stage = training(seconds=20.0)
    phase(stage, "idle", "begin", deadline_s=7200)
    stage.wait(7195, every=5)
    assert stage.log == []
    stage.wait(10)
    assert stage.last("hang").facts["waited_for"] == "idle"


def test_a_step_that_was_under_way_when_a_phase_began_does_not_end_it():
    stage = training()
    evaluate(stage, parts=False)
    stage.train(31, 60, 105.0)
    phase(stage, "eval", "begin")
    stage.now += 1
    stage.step(61, 105.0)
    assert stage.machine.view().waits_for == "eval"
