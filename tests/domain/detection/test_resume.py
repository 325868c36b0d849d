import pytest

from controlplane.domain.findings import Stage as Sure
from tests.domain.stage import Stage


def launched(resume=0, word=None, attempts=1):
    stage = Stage()
    for _ in range(attempts):
        stage.launch(resume=resume)
    if word is not None:
        stage.rank("rank.resume", 0, step=word)
    return stage


def save(stage, step, state="complete", **words):
    stage.rank("checkpoint", 0, step=step, state=state, tier="persistent", **words)


def fresh(stage):
    """A launch of which nobody said from where it starts."""
    stage.attempt += 1
    stage.send("attempt.started", nodes=stage.names, world_size=4)


def told(stage):
    return [item for item in stage.log if item.klass == "resume_mismatch"]


def test_an_attempt_that_says_it_loaded_less_than_it_was_told_to_is_stopped_before_it_saves():
    stage = launched(resume=900, word=850)
    stage.wait(1)
    (finding,) = told(stage)
    assert (finding.stage, finding.severity, finding.evidence) == (Sure.CONFIRMED, "critical", ())
    assert finding.sentence == "run demo was to resume from step 900 and says that it loaded step 850"
    assert (finding.facts["declared"], finding.facts["loaded"]) == (900, 850)


def test_steps_that_start_below_the_restore_point_are_found_at_the_first():
    stage = launched(resume=900)
    stage.train(851, 851)
    assert told(stage)[0].sentence == "run demo was to resume from step 900 and starts at step 851"


@pytest.mark.parametrize("first", [900, 901])
def test_a_run_that_resumes_where_it_should_is_not_suspected(first):
    stage = launched(resume=900, word=900)
    stage.train(first, 930)
    assert told(stage) == []


def test_steps_that_begin_anew_beside_the_checkpoint_of_an_earlier_attempt_are_found():
    stage = launched()
    stage.train(1, 10)
    save(stage, 10)
    fresh(stage)
    stage.train(1, 1)
    assert told(stage)[0].sentence == "run demo begins anew although checkpoint 10 is complete"
    stage.train(2, 12)
    assert len(told(stage)) == 1


def test_a_checkpoint_far_ahead_of_the_first_step_was_there_before():
    stage = Stage()
    save(stage, 42_000, attempt=1)
    fresh(stage)
    stage.train(0, 1)
    assert told(stage)[0].facts["checkpoint"] == 42_000


def test_a_fresh_run_that_saves_its_own_first_checkpoint_is_not_suspected():
    stage = Stage()
    fresh(stage)
    stage.train(1, 38)
    save(stage, 40)
    save(stage, 40, "verified")
    stage.train(39, 60)
    assert told(stage) == []


def test_a_launch_that_declares_the_beginning_means_it():
    stage = launched()
    stage.train(1, 10)
    save(stage, 10)
    stage.launch(resume=0)
    stage.train(1, 10)
    assert told(stage) == []


def test_a_checkpoint_that_is_torn_or_only_in_memory_asks_for_nothing():
    stage = launched()
    stage.train(1, 10)
    save(stage, 10, "torn")
    stage.rank("checkpoint", 0, step=8, state="complete", tier="memory")
    fresh(stage)
    stage.train(1, 10)
    assert told(stage) == []


def test_twenty_steps_without_a_word_where_earlier_attempts_gave_one_are_a_mismatch():
    stage = launched(resume=900, word=900)
    stage.launch(resume=920)
    stage.train(921, 940)
    assert told(stage) == []
    stage.train(941, 941)
    assert told(stage)[0].stage == Sure.CONFIRMED


def test_a_word_that_was_only_late_takes_it_back():
    stage = launched(resume=900, word=900)
    stage.launch(resume=920)
    stage.train(921, 941)
    stage.rank("rank.resume", 0, step=920)
    stage.sweep()
    assert [item.stage for item in told(stage)] == [Sure.CONFIRMED, Sure.CLEARED]


def test_hooks_that_never_say_what_they_resumed_are_not_asked():
    stage = launched(resume=900, attempts=2)
    stage.train(901, 940)
    assert told(stage) == []


def test_a_late_word_of_an_earlier_attempt_is_not_this_ones():
    stage = launched(resume=900, word=900)
    stage.launch(resume=950)
    stage.rank("rank.resume", 0, step=950)
    stage.rank("rank.resume", 0, step=900, attempt=1)
    stage.train(951, 960)
    assert told(stage) == []
