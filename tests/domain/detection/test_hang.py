import pytest

from controlplane.domain.detection.policy import RunPolicy
from controlplane.domain.findings import Stage as Sure
from tests.domain.stage import Stage


def trained(seconds, steps=40, **words):
    stage = Stage(**words)
    stage.launch()
    stage.train(1, steps, seconds)
    stage.stalled_at = stage.now
    return stage


def found_after(stage, klass, sure):
    return stage.first(klass, sure).at - stage.stalled_at


@pytest.mark.parametrize(("seconds", "deadline"), [(105.0, 310.0), (2.0, 55.0), (20.0, 55.0), (30.0, 85.0)])
def test_a_hang_is_suspected_at_three_medians_and_confirmed_by_the_clock_at_twice_that(seconds, deadline):
    stage = trained(seconds)
    stage.wait(2 * deadline + 5)
    assert found_after(stage, "hang", Sure.SUSPECT) == pytest.approx(deadline, abs=1)
    assert found_after(stage, "hang", Sure.CONFIRMED) == pytest.approx(2 * deadline, abs=1)


def test_a_suspicion_is_a_warning_and_names_nobody():
    stage = trained(2.0)
    stage.wait(60)
    suspicion = stage.last("hang")
    assert (suspicion.stage, suspicion.severity, suspicion.entity, suspicion.evidence) == (
        Sure.SUSPECT,
        "warning",
        "run",
        (),
    )
    assert suspicion.began == pytest.approx(stage.stalled_at + 2)


def test_a_stopped_process_confirms_the_hang_at_once_and_is_blamed_itself():
    stage = trained(105.0)
    stage.wait(311)
    stage.send("command.result", node="n2", run=None, data={"ranks": {"2": {"proc_state": "T", "answered": False}}})
    for rank in (0, 1, 3):
        answer = {str(rank): {"proc_state": "S", "answered": True}}
        stage.send("command.result", node=f"n{rank}", run=None, data={"ranks": answer})
    stage.sweep()
    finding = stage.last("hang")
    assert finding.stage == Sure.CONFIRMED
    assert finding.at == stage.now
    assert finding.entity == "rank:2"
    assert {line.entity for line in finding.evidence} == {"rank:2"}


def test_a_rank_that_gives_no_stack_while_the_others_do_speaks_against_its_node():
    stage = trained(20.0)
    stage.wait(60)
    for rank in range(4):
        stage.rank("rank.stack", rank, tool="py-spy", ok=rank != 3, frames=[] if rank == 3 else ["all_reduce"])
    stage.sweep()
    finding = stage.last("hang")
    assert (finding.stage, finding.entity) == (Sure.CONFIRMED, "node:n3")


def test_a_rank_missing_from_a_collective_speaks_against_its_node():
    stage = trained(20.0)
    stage.wait(60)
    for rank in (0, 1, 2):
        stage.rank("rank.collective", rank, group="dp", seq=8812, op="all_reduce", missing=[3])
    stage.sweep()
    assert (stage.last("hang").stage, stage.last("hang").entity) == (Sure.CONFIRMED, "node:n3")


def test_the_records_themselves_show_who_did_not_arrive():
    stage = trained(20.0)
    stage.wait(60)
    for rank in range(4):
        stage.rank("rank.collective", rank, group="dp", seq=8811 if rank == 1 else 8812, op="all_reduce")
    stage.sweep()
    assert stage.last("hang").entity == "node:n1"


def test_stacks_that_were_taken_before_the_suspicion_prove_nothing():
    stage = trained(20.0)
    stage.rank("rank.stack", 3, tool="proc", ok=True, frames=["state T (stopped)"])
    stage.wait(60)
    assert stage.last("hang").stage == Sure.SUSPECT


def test_stacks_that_were_taken_shortly_before_the_suspicion_count_with_those_after_it():
    stage = trained(20.0, nodes=12)
    stage.wait(54)
    for rank in range(6):
        stage.rank("rank.stack", rank, tool="py-spy", ok=True, frames=["all_reduce"])
    stage.wait(2)
    for rank in range(6, 11):
        stage.rank("rank.stack", rank, tool="py-spy", ok=True, frames=["all_reduce"])
    stage.wait(15)
    finding = stage.last("hang")
    assert (finding.stage, finding.entity) == (Sure.CONFIRMED, "node:n11")
    assert {line.entity for line in finding.evidence} == {"node:n11"}


def test_a_minority_of_a_large_group_is_named_but_does_not_confirm():
    stage = trained(20.0, nodes=12)
    stage.wait(60)
    for rank in range(12):
        stage.rank("rank.stack", rank, tool="py-spy", ok=True, frames=["read" if rank == 7 else "all_reduce"])
    stage.sweep()
    assert (stage.last("hang").stage, stage.last("hang").entity) == (Sure.SUSPECT, "node:n7")


def test_ranks_that_wait_for_the_same_stand_together_whatever_line_of_a_library_they_are_in():
    stage = trained(20.0, nodes=12)
    stage.wait(60)
    for rank in range(12):
        where = ["all_reduce (torch/distributed/distributed_c10d.py:2806)", "step (train.py:40)"]
        inner = [f"wait (threading.py:{300 + rank})", *where] if rank != 7 else ["read (reader.py:9)"]
        stage.rank("rank.stack", rank, tool="py-spy", ok=True, frames=inner)
    stage.sweep()
    apart = [line for line in stage.last("hang").evidence if line.kind == "minority"]
    assert [(line.entity, line.text) for line in apart] == [
        ("node:n7", "rank 7 on n7 stands apart from the others: stands in read (reader.py:9)")
    ]


def test_a_suspicion_that_passes_by_itself_is_cleared_and_teaches_patience():
    stage = trained(30.0)
    stage.wait(90)
    stage.step(41, 90)
    stage.sweep()
    assert stage.last("hang").stage == Sure.CLEARED
    assert stage.machine.view().k == pytest.approx(3.75)
    stage.now += 3.5 * 86400
    assert stage.machine.view(stage.now).k == pytest.approx(3.375)
    stage.now += 4 * 86400
    assert stage.machine.view(stage.now).k == 3


def test_patience_has_an_end():
    stage = trained(30.0, steps=41)
    for number in range(42, 60):
        stage.wait(400, every=5)
        stage.step(number, 30)
        stage.sweep()
    assert stage.machine.view().k == pytest.approx(6, abs=0.01)


def test_each_suspicion_has_its_own_key():
    stage = trained(30.0)
    for number in (41, 42):
        stage.wait(120)
        stage.step(number, 30)
        stage.sweep()
    assert len({item.key for item in stage.log if item.klass == "hang"}) == 2


def test_long_steps_below_three_medians_raise_nothing():
    stage = Stage()
    stage.launch()
    for number in range(1, 300):
        seconds = 304.0 if number % 3 == 0 and number > 30 else 105.0
        stage.train(number, number, seconds, every=15.0)
    assert stage.log == []


def test_until_there_are_enough_samples_the_deadline_is_ten_minutes_or_ten_declared_steps():
    stage = trained(2.0, steps=10)
    stage.wait(599)
    assert stage.log == []
    stage.wait(2)
    assert found_after(stage, "hang", Sure.SUSPECT) == pytest.approx(600, abs=1)
    assert Stage(policy=RunPolicy(declared_step_s=105)).policy.declared_step_s == 105


def test_the_declared_step_time_stretches_the_early_deadline():
    stage = trained(2.0, steps=10, policy=RunPolicy(declared_step_s=105))
    stage.wait(1049)
    assert stage.log == []
    stage.wait(2)
    assert found_after(stage, "hang", Sure.SUSPECT) == pytest.approx(1050, abs=1)


def test_the_first_steps_of_an_attempt_do_not_count():
    stage = Stage()
    stage.launch()
    stage.train(1, 5, 60.0)
    stage.train(6, 40, 2.0)
    assert stage.machine.view().median_step_s == 2.0
    assert stage.machine.view().samples == 35


def test_the_baseline_follows_a_shift_of_the_level_within_its_window():
    stage = trained(10.0, steps=200)
    stage.train(201, 328, 10.5, every=5)
    assert stage.machine.view().median_step_s == 10.5


def test_the_baseline_survives_a_restart_of_the_same_size_only():
    stage = trained(2.0)
    stage.launch(resume=30)
    assert stage.machine.view().samples == 35
    stage.launch(resume=30, names=["n0", "n1"])
    assert stage.machine.view().samples == 0


def test_the_slowest_reporting_rank_decides():
    stage = Stage()
    stage.launch()
    for number in range(1, 41):
        stage.wait(2)
        stage.rank("rank.step", 0, step=number, duration_ms=2000)
        stage.rank("rank.step", 1, step=number, duration_ms=2000)
    stage.stalled_at = stage.now
    for number in range(41, 80):
        stage.wait(2)
        stage.rank("rank.step", 0, step=number, duration_ms=2000)
    assert found_after(stage, "hang", Sure.SUSPECT) == pytest.approx(55, abs=2)


def test_steps_that_repeat_after_a_hidden_restart_are_signs_of_life_but_nothing_new():
    stage = trained(2.0)
    stage.train(20, 39, 4.0)
    view = stage.machine.view()
    (told,) = stage.log
    assert (told.mode, told.severity) == ("observe", "info")
    assert told.sentence == "run demo restarted once inside attempt 1 without a word; 21 steps are made again"
    assert (view.rewinds, view.rewound_steps, view.last_step, view.high_water_step) == (1, 21, 39, 40)


def test_while_we_stop_the_attempt_ourselves_nothing_is_suspected():
    stage = trained(2.0)
    stage.machine.rest(stage.now)
    stage.wait(300)
    assert stage.log == []


def test_a_job_without_hooks_is_not_judged_by_steps():
    stage = Stage()
    stage.launch()
    stage.wait(7200, every=30)
    assert stage.log == []


def test_a_launch_that_shows_no_rank_is_suspected_after_five_minutes():
    stage = Stage()
    stage.attempt = 1
    stage.send("attempt.started", nodes=stage.names, world_size=4)
    stage.wait(301)
    assert stage.last("hang").facts["waited_for"] == "launch"


def test_settings_of_a_run_shorten_the_deadline():
    policy = RunPolicy.from_overrides({"hang_floor_s": 6, "delta_s": 1, "min_samples": 10})
    stage = trained(0.5, policy=policy)
    stage.wait(6)
    assert found_after(stage, "hang", Sure.SUSPECT) == pytest.approx(5, abs=1)


def test_ranks_that_give_no_word_at_all_where_the_others_answered_speak_against_their_node():
    stage = trained(20.0, nodes=8)
    stage.wait(60)
    for rank in range(8):
        if rank != 5:
            stage.rank("rank.stack", rank, tool="py-spy", ok=True, frames=["all_reduce"])
    stage.sweep()
    assert stage.last("hang").stage == Sure.SUSPECT
    stage.wait(11)
    assert (stage.last("hang").stage, stage.last("hang").entity) == (Sure.CONFIRMED, "node:n5")


def test_a_node_that_is_itself_silent_was_never_asked():
    stage = trained(20.0, nodes=8)
    stage.mute.add("n5")
    stage.wait(60)
    for rank in range(8):
        if rank != 5:
            stage.rank("rank.stack", rank, tool="py-spy", ok=True, frames=["all_reduce"])
    stage.wait(20)
    assert stage.last("hang").stage == Sure.SUSPECT
