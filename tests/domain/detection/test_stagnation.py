from controlplane.domain.detection.policy import RunPolicy
from controlplane.domain.findings import Stage as Sure
from tests.domain.stage import Stage

POLICY = RunPolicy.from_overrides({"stagnation_s": 600, "first_step_floor_s": 60, "min_samples": 4})


def training(steps=40):
    stage = Stage(policy=POLICY)
    stage.launch()
    stage.train(1, steps, 2.0)
    stage.moved_at = stage.now
    return stage


def fail(stage, signal=9):
    stage.rank("rank.exited", 2, exit_code=None, signal=signal)
    stage.wait(2)
    stage.machine.rest(stage.now)


def launch_and_fail(stage, first, last, signal):
    """Another launch that dies before it has come back to where the run had been."""
    stage.launch(resume=first - 1)
    stage.train(first, last, 2.0)
    fail(stage, signal)


def told(stage):
    return [item for item in stage.log if item.detector == "D-02" and item.klass == "crash_loop"]


def test_launches_that_bring_no_new_step_for_long_are_told_once_with_one_key():
    stage = training()
    fail(stage, 9)
    launch_and_fail(stage, 31, 35, 11)
    stage.wait(400, every=5)
    stage.launch(resume=30)
    for again in range(1, 4):
        stage.train(31, 35, 2.0)
        stage.wait(80, every=5)
        stage.rank("rank.phase", 0, phase="idle", state="begin", deadline_s=500 + again)
    (finding,) = told(stage)
    assert (finding.stage, finding.key, finding.severity) == (Sure.CONFIRMED, "demo/stagnation/1", "critical")
    assert finding.facts["launches"] == 2
    assert "has not gone beyond step 40" in finding.sentence


def test_a_new_furthest_step_ends_it():
    stage = training()
    fail(stage, 9)
    launch_and_fail(stage, 31, 35, 11)
    stage.launch(resume=30)
    stage.train(31, 39, 60.0)
    stage.wait(200, every=5)
    assert [item.stage for item in told(stage)] == [Sure.CONFIRMED]
    stage.train(40, 41, 2.0)
    assert [item.stage for item in told(stage)] == [Sure.CONFIRMED, Sure.CLEARED]


def test_one_restart_that_waited_long_for_machines_is_no_loop():
    stage = training()
    fail(stage, 9)
    stage.wait(7200, every=30)
    stage.launch(resume=30)
    stage.train(31, 50, 2.0)
    assert told(stage) == []


def test_a_launch_is_given_its_time_to_come_back_before_it_counts():
    stage = training()
    fail(stage, 9)
    launch_and_fail(stage, 31, 35, 11)
    stage.wait(1200, every=5)
    stage.launch(resume=30)
    stage.wait(50, every=5)
    assert told(stage) == []


def test_restarts_inside_an_attempt_that_get_no_further_are_told():
    stage = training()
    for _ in range(20):
        stage.train(31, 40, 4.0)
    (finding,) = told(stage)
    assert finding.facts["launches"] == 0
    assert "in spite of restarts inside the attempt" in finding.sentence


def test_a_long_phase_with_a_declared_end_is_no_standstill():
    stage = training()
    stage.train(20, 30, 2.0)
    stage.rank("rank.phase", 0, phase="idle", state="begin", deadline_s=3000)
    stage.wait(2900, every=5)
    assert told(stage) == []


def test_the_moment_is_due_without_any_signal():
    stage = training()
    fail(stage, 9)
    launch_and_fail(stage, 31, 35, 11)
    stage.launch(resume=30)
    stage.train(31, 39, 2.0)
    stage.rank("rank.phase", 0, phase="idle", state="begin", deadline_s=599)
    moments = []
    while not told(stage) and len(moments) < 300:
        stage.now = stage.machine.due(stage.now)
        moments.append(stage.now)
        stage.machine.awake(stage.now)
        stage.beat()
        stage.sweep()
    assert told(stage)[0].at == moments[-1]
