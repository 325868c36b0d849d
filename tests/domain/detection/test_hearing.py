"""How far a node's words can be trusted (D-19, methods 7 and 11.16)."""

import pytest

from controlplane.domain.detection import clocks, hearing
from tests.domain.stage import Stage


def training(seconds=2.0, steps=30):
    stage = Stage()
    stage.launch()
    stage.train(1, steps, seconds)
    return stage


def state(stage):
    return stage.machine._state


def beat(stage, node="n1", *, ahead=0.0, **data):
    stage.now += 5
    stage.send("node.heartbeat", node=node, run=None, at=stage.now + ahead, **data)


def test_the_skew_of_a_clock_is_measured_from_heartbeats_and_bounded():
    stage = Stage()
    stage.launch()
    for late in (0.0, 0.1, 0.0, 0.2, 0.1, 0.0, 0.1):
        beat(stage, ahead=20 - late)
    ahead, bound = clocks.skew(state(stage), "n1")
    assert ahead == pytest.approx(19.9, abs=0.11)
    assert 1.0 <= bound <= 1.3
    stamped = round((stage.now + 20) * 1000)
    assert clocks.true_time(state(stage), "n1", stamped) == pytest.approx(stage.now, abs=0.2)


def test_a_clock_that_nobody_measured_is_no_evidence():
    stage = Stage()
    stage.launch()
    beat(stage)
    assert clocks.bound(state(stage), "n1") is None
    assert clocks.bound(state(stage), "nobody") is None


def test_heartbeats_that_waited_in_a_spool_do_not_move_the_clock():
    stage = training()
    before = clocks.skew(state(stage), "n1")
    for _ in range(20):
        beat(stage, ahead=-600, lag_ms=600_000)
    assert clocks.skew(state(stage), "n1") == before


def test_a_reader_that_reads_nothing_makes_its_source_deaf_until_it_reads_again():
    stage = training()
    beat(stage, readers={"dcgm": {"ok": False}, "kmsg": {"ok": True, "last_read_age_s": 61}, "job": {"ok": True}})
    assert [clocks.deaf(state(stage), "n1", name, stage.now) for name in ("dcgm", "kmsg", "job")] == [True, True, False]
    beat(stage, readers={"dcgm": {"ok": True, "last_read_age_s": 1}, "kmsg": {"ok": True}})
    assert not clocks.deaf(state(stage), "n1", "dcgm", stage.now)


def test_a_hole_in_a_log_takes_the_meaning_from_its_silence_for_the_window_of_attribution():
    stage = training()
    stage.send("node.log", node="n1", run=None, source="kernel", text="x", gap=True)
    assert clocks.deaf(state(stage), "n1", "kernel", stage.now + 899)
    assert not clocks.deaf(state(stage), "n1", "kernel", stage.now + 901)
    assert not clocks.deaf(state(stage), "n1", "slurmd", stage.now)


@pytest.mark.parametrize("data", [{"readers": 5}, {"readers": {"x": 7}}, {"spool": "full"}, {"lag_ms": "nan"}])
def test_strange_heartbeats_are_taken_for_what_can_be_read(data):
    stage = training()
    beat(stage, **data)
    assert not clocks.deaf(state(stage), "n1", "x", stage.now)


def telemetry(stage):
    return [item for item in stage.log if item.detector == "D-19"]


def late_steps(stage, first, last, *, late, every):
    for number in range(first, last + 1):
        stage.wait(every, every=5.0)
        stage.rank("rank.step", 0, step=number, duration_ms=20_000, at=stage.now - late)


def test_steps_that_only_arrive_late_are_told_once_and_are_no_hang():
    stage = training(20.0)
    late_steps(stage, 31, 45, late=120, every=20)
    assert telemetry(stage) == []
    late_steps(stage, 46, 55, late=120, every=20)
    assert [(item.klass, item.severity) for item in telemetry(stage)] == [("telemetry_lost", "warning")]
    late_steps(stage, 56, 58, late=0, every=20)
    assert telemetry(stage)[-1].stage == "cleared"


def test_single_late_steps_among_punctual_ones_are_not_told():
    stage = training(20.0)
    for number in range(31, 71, 2):
        late_steps(stage, number, number, late=600, every=10)
        late_steps(stage, number + 1, number + 1, late=0, every=10)
    assert telemetry(stage) == []


def test_what_arrives_in_one_go_after_an_outage_is_no_lag_that_lasts():
    stage = training(20.0)
    late_steps(stage, 31, 60, late=300, every=0.1)
    late_steps(stage, 61, 80, late=0, every=20)
    assert telemetry(stage) == []


def test_a_clock_that_is_slow_is_no_lag():
    stage = Stage()
    stage.launch()
    stage.mute.add("n0")
    for _ in range(10):
        beat(stage, node="n0", ahead=-300)
    for number in range(1, 30):
        stage.wait(20, every=5.0)
        beat(stage, node="n0", ahead=-300)
        stage.rank("rank.step", 0, step=number, duration_ms=20_000, at=stage.now - 300)
    assert telemetry(stage) == []


def test_a_flood_of_log_lines_is_noticed():
    heard = state(training()).nodes["n1"].hearing
    stage = Stage()
    for _ in range(hearing.FLOOD_LINES):
        hearing.take(heard, stage.signal("node.log", node="n1", run=None, source="kernel"))
    assert heard.flood_at == stage.now
