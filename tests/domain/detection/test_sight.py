import pytest

from controlplane.domain.detection.policy import RunPolicy
from controlplane.domain.findings import Stage as Sure
from tests.domain.stage import Stage


def training(seconds=20.0, steps=40, **words):
    stage = Stage(**words)
    stage.launch()
    stage.train(1, steps, seconds)
    return stage


def test_an_outage_of_ingest_is_told_as_blindness_and_raises_no_other_alarm():
    stage = training()
    for _ in range(600):
        stage.now += 1
        stage.sweep()
    assert [item.klass for item in stage.log] == ["blind"]
    for number in range(41, 71):
        stage.step(number, 20.0)
    stage.next_beat = stage.now
    stage.train(71, 100, 20.0)
    assert stage.classes() == {"blind"}
    assert [item.stage for item in stage.log] == [Sure.CONFIRMED, Sure.CLEARED]


def test_after_our_own_absence_nothing_is_judged_from_age_before_the_observation_is_over():
    stage = training()
    stage.now += 600
    stage.next_beat = stage.now
    stage.wait(119)
    assert stage.log == []
    assert stage.machine.view().frozen
    stage.wait(5)
    assert stage.last("hang").stage == Sure.SUSPECT


SHORT = RunPolicy(hang_floor_s=3, delta_s=0.5, min_samples=5, silence_s=4, silence_hold_s=4, heartbeat_s=1)


def test_a_short_absence_is_no_hang_of_a_run_with_short_limits():
    stage = training(seconds=0.5, policy=SHORT)
    stage.now += 10
    stage.sweep()
    assert stage.machine.view().frozen
    stage.now += 9
    stage.sweep()
    stage.next_beat = stage.now
    for number in range(41, 80):
        stage.step(number, 0.5)
    stage.train(80, 120, 0.5)
    assert stage.log == []


def test_a_hang_that_a_short_absence_hid_is_found_after_it():
    stage = training(seconds=0.5, policy=SHORT)
    stage.now += 10
    stage.next_beat = stage.now
    stage.wait(19)
    assert stage.log == []
    stage.wait(10)
    assert stage.last("hang").stage == Sure.CONFIRMED


def test_a_sweep_that_is_late_by_little_takes_nothing_from_the_age_of_a_step():
    stage = training(seconds=0.5, policy=SHORT)
    stage.wait(20, every=2.5)
    assert stage.last("hang").stage == Sure.CONFIRMED


def test_a_late_event_is_a_sign_of_life_of_its_sender_now():
    stage = training()
    stage.mute.add("n2")
    stage.wait(28)
    stage.send("node.heartbeat", node="n2", run=None, at=stage.now - 600)
    stage.wait(20)
    assert "n2" not in [node.name for node in stage.machine.view().nodes if node.silent]


def test_the_launcher_alone_keeps_us_from_being_blind():
    stage = training()
    stage.mute |= set(stage.names)
    stage.wait(700)
    assert stage.log == []
    assert stage.machine.view().held


def test_the_machine_asks_for_the_nodes_of_the_attempt_and_for_the_launcher():
    stage = training()
    assert stage.machine.nodes() == ("head", "n0", "n1", "n2", "n3")
    stage.launch(names=["n0", "n1", "s0", "s1"])
    assert stage.machine.nodes() == ("head", "n0", "n1", "s0", "s1")


@pytest.mark.parametrize("kind", ["node.heartbeat", "rank.step", "attempt.exited"])
def test_what_belongs_to_another_run_changes_nothing(kind):
    stage = training()
    before = stage.machine.snapshot()
    stage.send(kind, node="elsewhere", run="other", attempt=9, rank=0, step=10**6, reason="failed")
    assert stage.machine.snapshot() == before
