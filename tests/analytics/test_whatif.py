"""The same events under other settings; the reducer is the live one, so only the joints are tested here."""

from controlplane.analytics.whatif import verdicts
from controlplane.domain.detection.policy import RunPolicy
from tests.domain.stage import T0, Stage


def a_night(pause_s):
    """Steps of 20 s, then a pause, then steps again."""
    stage = Stage(nodes=2)
    stage.launch()
    stage.train(1, 40, seconds=20)
    stage.wait(pause_s, every=5)
    stage.train(41, 44, seconds=20)
    return sorted(stage.signals, key=lambda signal: signal.received), stage.now


def test_a_lower_floor_finds_a_pause_that_the_default_lets_pass():
    signals, end = a_night(pause_s=30)
    assert verdicts("demo", signals, RunPolicy(), {}, until=end) == []
    strict = RunPolicy.from_overrides({"hang_k": 1.5, "hang_floor_s": 30.0})
    found = verdicts("demo", signals, strict, {}, until=end)
    assert [(item.klass, item.confirmed_at, item.cleared_at is not None) for item in found] == [("hang", None, True)]


def test_the_moment_is_the_one_of_the_deadline_and_not_of_the_next_event():
    signals, end = a_night(pause_s=300)
    (found,) = verdicts("demo", signals, RunPolicy(), {}, until=end)
    last_step = T0 + 40 * 20
    assert abs(found.suspected_at - (last_step + 55)) <= 1
    assert abs(found.confirmed_at - (last_step + 110)) <= 1


def test_an_attempt_that_we_ended_ourselves_is_no_trouble():
    signals, _ = a_night(pause_s=300)
    stopped = [signal for signal in signals if signal.received <= T0 + 40 * 20]
    assert verdicts("demo", stopped, RunPolicy(), {1: T0 + 40 * 20 + 10}, until=T0 + 40 * 20 + 25) == []


def test_a_rule_in_observe_keeps_its_verdict_and_says_so():
    signals, end = a_night(pause_s=300)
    (found,) = verdicts("demo", signals, RunPolicy.from_overrides({"modes": {"D-01": "observe"}}), {}, until=end)
    assert found.mode == "observe"
    assert verdicts("demo", signals, RunPolicy.from_overrides({"modes": {"D-01": "off"}}), {}, until=end) == []


def test_no_events_give_no_verdict():
    assert verdicts("demo", [], RunPolicy(), {}, until=T0) == []
