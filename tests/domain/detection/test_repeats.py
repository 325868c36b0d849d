from controlplane.domain.detection.policy import RunPolicy
from controlplane.domain.findings import Stage as Sure
from tests.domain.stage import Stage

SETS = (["a0", "a1", "a2", "a3"], ["b0", "b1", "b2", "b3"], ["c0", "c1", "c2", "c3"])
BAD_SAMPLE = {"type": "AssertionError", "message": "sample length 2049 > 2048"}
POLICY = RunPolicy(poison_s=5, poison_steps=3, min_samples=4)


def begun(names=None):
    stage = Stage(policy=POLICY)
    stage.launch(names=names)
    return stage


def save(stage, step, state="complete", **words):
    stage.rank("checkpoint", 0, step=step, state=state, tier="persistent", **words)


def fail(stage, rank, error=None, signal=None):
    stage.rank("rank.exited", rank, exit_code=1 if error else None, signal=signal, error=error)
    stage.wait(2)
    stage.machine.rest(stage.now)


def resumed(stage, step, last, names=None, seconds=2.0):
    stage.launch(resume=step, names=names)
    stage.rank("rank.resume", 0, step=step)
    stage.train(step + 1, last, seconds)


def told(stage):
    return [item for item in stage.log if item.detector == "D-11"]


def error(kind, text):
    return {"type": kind, "message": text}


def test_two_failures_of_one_kind_without_a_checkpoint_between_are_a_loop():
    stage = begun()
    stage.train(1, 20, 2.0)
    save(stage, 20)
    stage.train(21, 40, 2.0)
    fail(stage, 1, error("RuntimeError", "worker 17 exited"))
    assert told(stage) == []
    resumed(stage, 20, 31)
    fail(stage, 3, error("RuntimeError", "worker 4 exited"))
    (finding,) = told(stage)
    assert (finding.klass, finding.stage, finding.entity) == ("crash_loop", Sure.CONFIRMED, "run")
    assert finding.evidence == ()
    assert finding.facts["attempts"] == [1, 2]
    assert "failed 2 times without a new complete checkpoint between" in finding.sentence


def test_later_failures_of_the_loop_keep_its_key_and_a_new_checkpoint_ends_it():
    stage = begun()
    stage.train(1, 20, 2.0)
    fail(stage, 1, signal=11)
    for last in (8, 14):
        resumed(stage, 0, last)
        fail(stage, 2, signal=11)
    assert {item.key for item in told(stage)} == {"demo/repeats/1"}
    resumed(stage, 0, 25)
    assert told(stage)[-1].stage == Sure.CONFIRMED
    save(stage, 25)
    stage.sweep()
    assert told(stage)[-1].stage == Sure.CLEARED


def test_a_loop_after_another_one_has_a_key_of_its_own():
    stage = begun()
    for step in (0, 30):
        stage.train(step + 1, step + 20, 2.0)
        fail(stage, 1, signal=11)
        resumed(stage, step, step + 9)
        fail(stage, 2, signal=11)
        resumed(stage, step, step + 30)
        save(stage, step + 30)
        stage.sweep()
    assert [item.key for item in told(stage) if item.stage == Sure.CLEARED] == ["demo/repeats/1", "demo/repeats/2"]


def test_a_checkpoint_between_two_equal_failures_makes_them_strangers():
    stage = begun()
    stage.train(1, 20, 2.0)
    fail(stage, 1, signal=11)
    resumed(stage, 0, 30)
    save(stage, 30)
    fail(stage, 1, signal=11)
    assert told(stage) == []


def test_a_checkpoint_that_turns_out_torn_was_no_progress():
    stage = begun()
    stage.train(1, 20, 2.0)
    fail(stage, 1, signal=11)
    resumed(stage, 0, 30)
    save(stage, 30)
    stage.wait(1)
    save(stage, 30, "torn")
    fail(stage, 2, signal=11)
    assert told(stage)[-1].klass == "crash_loop"


def test_a_save_that_is_told_late_belongs_to_the_attempt_that_made_it():
    stage = begun()
    stage.train(1, 20, 2.0)
    fail(stage, 1, signal=11)
    resumed(stage, 0, 9)
    save(stage, 20, attempt=1)
    fail(stage, 2, signal=11)
    assert told(stage)[-1].klass == "crash_loop"


def test_three_launches_without_a_checkpoint_are_a_loop_whatever_killed_them():
    stage = begun()
    stage.train(1, 20, 2.0)
    fail(stage, 0, error("KeyError", "'a'"))
    for number, signal in enumerate((9, 11, 7)):
        assert told(stage) == []
        resumed(stage, 0, 8 + number)
        fail(stage, 1, signal=signal)
    assert told(stage)[-1].klass == "crash_loop"
    assert told(stage)[-1].facts["launches"] == 3


def test_a_hang_that_comes_again_is_a_loop_as_well():
    stage = begun()
    for _ in range(2):
        stage.train(1, 20, 2.0)
        stage.wait(130)
        stage.machine.rest(stage.now)
        stage.launch()
    assert told(stage)[-1].klass == "crash_loop"


def test_failures_that_a_lost_node_explains_are_no_loop():
    stage = begun()
    for _ in range(3):
        stage.train(1, 20, 2.0)
        stage.scheduler_says("n2", "down")
        stage.mute.add("n2")
        stage.rank("rank.exited", 1, exit_code=1, error=error("RuntimeError", "Connection reset by peer"))
        stage.wait(40)
        assert "node_lost" in stage.classes(Sure.CONFIRMED)
        stage.machine.rest(stage.now)
        stage.mute.clear()
        stage.scheduler_says("n2", "idle")
        stage.launch()
    assert told(stage) == []


def test_one_step_that_fails_alike_on_different_machines_is_the_work_itself():
    stage = begun(names=SETS[0])
    stage.train(1, 100, 1.0)
    save(stage, 100)
    stage.train(101, 199, 1.0)
    fail(stage, 1, BAD_SAMPLE)
    for number, last in ((1, 200), (2, 199)):
        resumed(stage, 100, last, SETS[number], seconds=1.0)
        fail(stage, 3, BAD_SAMPLE)
    finding = told(stage)[-1]
    assert (finding.klass, finding.entity, finding.facts["same_step"]) == ("workload_error", "workload", True)
    assert [(line.entity, line.weight) for line in finding.evidence] == [("workload", 6.0)]
    assert "3 times at steps 199 to 200" in finding.sentence
    assert {item.klass for item in told(stage)} == {"workload_error"}


def test_one_step_on_the_same_machine_is_a_loop_and_not_the_work():
    stage = begun()
    stage.train(1, 60, 1.0)
    fail(stage, 1, BAD_SAMPLE)
    resumed(stage, 0, 60, seconds=1.0)
    fail(stage, 1, BAD_SAMPLE)
    assert told(stage)[-1].klass == "crash_loop"


def test_two_deaths_right_after_one_restore_on_different_machines_are_the_checkpoint():
    stage = begun(names=SETS[0])
    stage.train(1, 30, 2.0)
    save(stage, 30)
    stage.train(31, 60, 2.0)
    fail(stage, 1, signal=11)
    resumed(stage, 30, 33, SETS[1])
    fail(stage, 2, error("RuntimeError", "tensor sizes differ"))
    assert told(stage) == []
    resumed(stage, 30, 31, SETS[2])
    fail(stage, 3, error("IndexError", "optimizer state has 0 entries"))
    (finding,) = told(stage)
    assert (finding.klass, finding.entity, finding.facts["step"]) == ("checkpoint_poison", "checkpoint:30", 30)
    assert [(line.entity, line.weight) for line in finding.evidence] == [("checkpoint:30", 6.0)]


def test_a_checkpoint_from_which_the_run_once_went_on_is_not_to_blame():
    stage = begun(names=SETS[0])
    stage.train(1, 30, 2.0)
    save(stage, 30)
    resumed(stage, 30, 60, SETS[0])
    fail(stage, 1, signal=7)
    for number, kind in ((1, "KeyError"), (2, "IndexError")):
        resumed(stage, 30, 32, SETS[number])
        fail(stage, 2, error(kind, "x"))
    assert "checkpoint_poison" not in {item.klass for item in told(stage)}


def test_a_failure_that_the_run_had_without_that_checkpoint_is_not_its_fault():
    stage = begun(names=SETS[0])
    stage.train(1, 30, 2.0)
    save(stage, 30)
    stage.train(31, 60, 2.0)
    fail(stage, 1, signal=11)
    for number in (1, 2):
        resumed(stage, 30, 31 + 2 * number, SETS[number])
        fail(stage, number, signal=11)
    assert {item.klass for item in told(stage)} == {"crash_loop"}


def test_a_launch_that_dies_before_it_has_restored_says_nothing_of_the_checkpoint():
    stage = begun(names=SETS[0])
    stage.train(1, 30, 2.0)
    save(stage, 30)
    for number, kind in enumerate(("ImportError", "OSError", "KeyError")):
        stage.launch(resume=30, names=SETS[number])
        stage.wait(2)
        fail(stage, number, error(kind, "x"))
    assert "checkpoint_poison" not in {item.klass for item in told(stage)}
