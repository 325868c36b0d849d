"""Saves that do not come, and saves that are not whole."""

from controlplane.domain.detection.policy import RunPolicy
from controlplane.domain.findings import Stage as Sure
from tests.domain.stage import T0, Stage

EVERY_100 = RunPolicy.from_overrides({"checkpoint_every_steps": 100})


def training(policy=EVERY_100, last=30):
    stage = Stage(nodes=2, policy=policy)
    stage.launch()
    stage.train(1, last, seconds=30)
    return stage


def save(stage, step, state="complete", files=64, expected=64, **words):
    stage.rank("checkpoint", 0, step=step, tier=words.pop("tier", "persistent"), state=state, files=files,
               expected_files=expected, **words)  # fmt: skip
    return stage.sweep()


def upkeep(stage):
    return [item for item in stage.log if item.detector == "D-09"]


def test_a_run_that_makes_steps_and_saves_nothing_for_one_and_a_half_intervals_is_critical():
    stage = training(last=100)
    save(stage, 100)
    saved_at = stage.now
    stage.train(101, 270, seconds=30)
    (found,) = upkeep(stage)
    assert (found.klass, found.stage, found.severity) == ("checkpoint_overdue", Sure.CONFIRMED, "critical")
    assert abs(found.at - (saved_at + 1.5 * 100 * 30 + 300)) <= 30
    assert "the last one is that of step 100" in found.sentence
    assert stage.machine.due(saved_at) <= saved_at + 4800


def test_the_next_save_takes_it_back():
    stage = training(last=100)
    save(stage, 100)
    stage.train(101, 270, seconds=30)
    save(stage, 270)
    assert upkeep(stage)[-1].stage == Sure.CLEARED
    assert upkeep(stage)[-1].key == upkeep(stage)[0].key


def test_a_run_that_stands_still_is_not_told_for_its_saves():
    stage = training(last=100)
    save(stage, 100)
    stage.wait(6000, every=5)
    assert upkeep(stage) == []


def test_the_interval_is_learned_from_three_saves_and_unknown_before():
    stage = training(RunPolicy(), last=20)
    save(stage, 20)
    stage.train(21, 40, seconds=30)
    save(stage, 40)
    stage.train(41, 60, seconds=30)
    assert upkeep(stage) == []
    save(stage, 60)
    stage.train(61, 110, seconds=30)
    assert [item.klass for item in upkeep(stage)] == ["checkpoint_overdue"]


def test_a_save_that_lacks_files_is_told_and_no_longer_matters_once_a_later_one_is_whole():
    stage = training()
    save(stage, 30, files=991, expected=992)
    (found,) = upkeep(stage)
    assert (found.klass, found.entity, found.severity) == ("checkpoint_incomplete", "checkpoint:30", "warning")
    assert "has 991 of 992 files" in found.sentence
    save(stage, 60)
    assert upkeep(stage)[-1].stage == Sure.CLEARED


def test_a_save_that_is_still_being_written_or_lies_in_memory_is_not_judged():
    stage = training()
    save(stage, 30, state="saving", files=0)
    save(stage, 30, files=0, tier="memory")
    save(stage, 30, state="written", files=12)
    assert upkeep(stage) == []


def test_a_save_that_was_mended_is_taken_back():
    stage = training()
    save(stage, 30, state="failed", files=None, expected=None)
    save(stage, 30, state="verified")
    assert [item.stage for item in upkeep(stage)] == [Sure.CONFIRMED, Sure.CLEARED]


def test_words_that_come_twice_or_turned_round_change_nothing():
    stage = training(last=100)
    for _ in range(2):
        save(stage, 100, state="verified")
        save(stage, 100, state="complete")
    stage.train(101, 200, seconds=30)
    save(stage, 200)
    assert upkeep(stage) == []
    assert stage.now > T0
