"""The verdict table of methods 2."""

from dataclasses import replace

import pytest

from controlplane.domain.detection.policy import RunPolicy
from controlplane.domain.diagnosis.diagnose import diagnose
from controlplane.domain.findings import Stage as Sure
from tests.domain.detection.test_deaths import RESET, verdict
from tests.domain.stage import Stage


def training(seconds=2.0, **words):
    stage = Stage(**words)
    stage.launch()
    stage.train(1, 30, seconds)
    return stage


def go_silent(stage, *names):
    stage.beat()
    stage.mute |= set(names)
    stage.silent_at = stage.now


def lost_after(stage, sure):
    return stage.first("node_lost", sure).at - stage.silent_at


def test_silence_beside_an_advancing_run_is_lost_telemetry_and_told_after_five_minutes():
    stage = training()
    go_silent(stage, "n2")
    stage.train(31, 170, 2.0)
    assert stage.log == []
    stage.train(171, 190, 2.0)
    assert stage.classes() == {"telemetry_lost"}
    assert stage.last("telemetry_lost").severity == "warning"


def test_a_silent_node_of_a_stalled_run_is_suspected_and_after_the_hold_lost():
    stage = training()
    go_silent(stage, "n2")
    stage.wait(100)
    assert lost_after(stage, Sure.SUSPECT) == pytest.approx(55, abs=1)
    assert lost_after(stage, Sure.CONFIRMED) == pytest.approx(90, abs=1)
    assert verdict(stage).act_on == "n2"


def test_the_hold_and_the_deadline_run_together_not_one_after_the_other():
    stage = training(seconds=105.0)
    go_silent(stage, "n2")
    stage.wait(320)
    assert lost_after(stage, Sure.CONFIRMED) == pytest.approx(310, abs=2)


def test_the_word_of_the_scheduler_ends_the_waiting():
    stage = training()
    go_silent(stage, "n2")
    stage.wait(32)
    stage.scheduler_says("n2", "down")
    stage.sweep()
    assert lost_after(stage, Sure.CONFIRMED) == pytest.approx(32, abs=1)
    assert verdict(stage).act_on == "n2"


def test_a_down_node_of_an_advancing_run_is_not_judged():
    stage = training()
    go_silent(stage, "n2")
    stage.scheduler_says("n2", "down")
    stage.train(31, 60, 2.0)
    assert stage.log == []


def test_a_pause_that_ends_before_the_hold_is_over_costs_nothing():
    stage = training()
    go_silent(stage, "n2")
    stage.wait(70)
    stage.mute.clear()
    stage.wait(6)
    assert [item.stage for item in stage.log if item.klass == "node_lost"] == [Sure.SUSPECT, Sure.CLEARED]


def test_a_lost_node_follows_the_crash_of_its_peers():
    stage = training()
    go_silent(stage, "n2")
    stage.wait(1)
    for rank in (0, 1, 3):
        stage.rank("rank.exited", rank, exit_code=1, error=RESET)
    stage.sweep()
    assert stage.classes() == {"crash"}
    assert stage.last("crash").entity == "run"
    stage.machine.rest(stage.now)
    stage.wait(100)
    assert lost_after(stage, Sure.CONFIRMED) == pytest.approx(90, abs=1)
    assert stage.last("node_lost").attempt == 1
    assert (verdict(stage).klass, verdict(stage).act_on) == ("node_lost", "n2")


def test_after_a_stop_without_trouble_nodes_may_go():
    stage = training()
    stage.machine.rest(stage.now)
    go_silent(stage, "n2")
    stage.wait(300)
    assert stage.log == []


def test_many_silent_nodes_at_once_are_not_judged_one_by_one():
    stage = training(nodes=20)
    go_silent(stage, *[f"n{number}" for number in range(8)])
    stage.wait(600)
    assert stage.log == []
    assert stage.machine.view().held


def test_two_silent_nodes_of_a_small_run_are_judged():
    stage = training(nodes=4)
    go_silent(stage, "n1", "n2")
    stage.wait(120)
    assert {item.entity for item in stage.log if item.klass == "node_lost"} == {"node:n1", "node:n2"}


def test_a_node_that_never_spoke_is_unknown_and_not_silent():
    stage = Stage()
    stage.attempt = 1
    stage.send("attempt.started", nodes=[*stage.names, "ghost"], world_size=4)
    for rank in range(4):
        stage.rank("rank.started", rank)
    stage.train(1, 30, 2.0)
    stage.wait(200)
    assert all(item.entity != "node:ghost" for item in stage.log)


def test_settings_of_a_run_shorten_silence_and_hold():
    stage = training(policy=RunPolicy.from_overrides({"silence_s": 6, "silence_hold_s": 4}))
    go_silent(stage, "n2")
    for rank in (0, 1, 3):
        stage.rank("rank.exited", rank, exit_code=1, error=RESET)
    stage.wait(15)
    assert lost_after(stage, Sure.CONFIRMED) == pytest.approx(10, abs=1)


def test_silence_alone_has_no_finding_to_diagnose():
    stage = training(seconds=105.0)
    go_silent(stage, "n2")
    stage.wait(100)
    assert stage.log == []
    with pytest.raises(ValueError, match="nothing to diagnose"):
        diagnose(stage.log, now=stage.now, policy=stage.policy)


def drained(stage, name, owner):
    data = {"node": name, "state": "drained", "owner": owner}
    stage.machine.observe(replace(stage.signal("scheduler.node", run=None), data=data), stage.now)


def test_a_node_that_a_person_drained_counts_as_lost_only_when_it_is_silent_as_well():
    stage = training()
    drained(stage, "n2", "ana")
    stage.wait(100)
    assert "node_lost" not in stage.classes()
    go_silent(stage, "n2")
    stage.wait(35)
    assert lost_after(stage, Sure.CONFIRMED) == pytest.approx(30, abs=1)


@pytest.mark.parametrize("state", ["down", "drained"])
def test_a_node_that_we_fenced_ourselves_is_not_called_dying_for_it(state):
    stage = training()
    word = {"node": "n2", "state": state, "reason": "middlewatch: fenced", "owner": "middlewatch"}
    stage.machine.observe(replace(stage.signal("scheduler.node", run=None), data=word), stage.now)
    stage.wait(80)
    assert "node_lost" not in {item.klass for item in stage.log}


def test_a_node_of_a_stalled_run_that_the_scheduler_drained_is_dying_while_it_still_speaks():
    stage = training()
    drained(stage, "n2", "slurm")
    stage.wait(60)
    found = stage.first("node_lost", Sure.CONFIRMED)
    assert found.facts["dying"]
    assert found.sentence == "node n2 is dying: the scheduler calls it drained and run demo stands still"
    assert verdict(stage).act_on == "n2"


def test_silence_that_began_long_before_the_run_stalled_is_no_sign_of_death():
    stage = training()
    go_silent(stage, "n2")
    stage.train(31, 60, 2.0)
    stage.wait(200)
    assert stage.classes() == {"hang", "telemetry_lost"}
    assert verdict(stage).act_on is None


def test_nodes_that_only_lost_their_telemetry_together_are_left_to_the_fleet_and_hide_no_hang():
    stage = training(nodes=20)
    go_silent(stage, *[f"n{number}" for number in range(1, 9)])
    stage.train(31, 300, 2.0)
    assert stage.log == []
    stage.wait(120)
    assert stage.classes() == {"hang"}


def test_the_next_moment_that_matters_is_known_in_advance():
    stage = training()
    go_silent(stage, "n2")
    moments = []
    while (due := stage.machine.due(stage.now)) is not None and due < stage.silent_at + 95:
        stage.now = due
        moments.append(round(due - stage.silent_at))
        stage.machine.awake(stage.now)
        stage.beat()
        stage.sweep()
    assert {30, 55, 90} <= set(moments)
    assert lost_after(stage, Sure.CONFIRMED) == pytest.approx(90, abs=0.1)
