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
    """The evaluation freezes after its first data set."""
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


def restore(stage, rank, state, **data):
    stage.rank("rank.phase", rank, phase="restore", state=state, total=8, unit="files", **data)


def loading(ranks=4):
    """All ranks read their files, one every ten seconds."""
    stage = Stage(nodes=ranks)
    stage.launch()
    for rank in range(ranks):
        restore(stage, rank, "begin", done=0, bytes=0)
    return stage


def read(stage, ranks, done, **words):
    stage.wait(10, every=5)
    for rank in ranks:
        restore(stage, rank, "end" if done == 8 else "progress", done=done, bytes=done * 10**9, **words)


def test_the_rank_that_stops_while_the_others_end_their_restore_is_named():
    stage = loading()
    for done in range(1, 9):
        read(stage, [0, 1, 3] + ([2] if done < 8 else []), done)
    stopped_at = stage.now - 10
    stage.wait(300, every=1.0)
    suspect = stage.first("restore_stall", Sure.SUSPECT)
    assert suspect.at - stopped_at == pytest.approx(120, abs=1)
    assert suspect.entity == "rank:2"
    assert "rank 2 on n2 stopped at 7 of 8 files while 3 ranks have all of theirs" in suspect.sentence
    assert suspect.facts["missing"] == {"2": [7.0, 8.0]}
    assert {line.entity for line in suspect.evidence} == {"rank:2"}
    assert stage.first("restore_stall", Sure.CONFIRMED).at - stopped_at == pytest.approx(240, abs=1)
    assert stage.classes() == {"restore_stall"}


def test_a_rank_whose_end_was_lost_is_not_waited_for_once_the_leader_has_gone_on():
    stage = loading()
    for done in range(1, 9):
        read(stage, [0, 1, 3] + ([2] if done < 8 else []), done)
    phase(stage, "compile", "begin")
    stage.wait(600, every=5)
    assert stage.log == []


def test_events_that_repeat_the_same_count_are_no_progress():
    stage = loading()
    read(stage, range(4), 3)
    moved_at = stage.now
    for _ in range(14):
        stage.wait(10, every=1.0)
        for rank in range(4):
            restore(stage, rank, "progress", done=3, bytes=3 * 10**9)
    assert stage.first("restore_stall").at - moved_at == pytest.approx(120, abs=1)


def test_bytes_at_less_than_a_tenth_of_the_usual_rate_are_no_progress():
    stage = loading(1)
    for done in range(1, 9):
        read(stage, [0], done)
    stage.launch()
    restore(stage, 0, "begin", done=0, bytes=0)
    for part in range(1, 31):
        stage.wait(10, every=5)
        restore(stage, 0, "progress", done=0, bytes=part * 9 * 10**7)
    assert "restore_stall" in stage.classes()


def test_a_restore_at_half_the_usual_rate_is_only_slow():
    stage = loading(1)
    for done in range(1, 9):
        read(stage, [0], done)
    stage.launch()
    restore(stage, 0, "begin", done=0, bytes=0)
    for part in range(1, 31):
        stage.wait(10, every=5)
        restore(stage, 0, "progress", done=0, bytes=part * 5 * 10**8)
    assert stage.log == []


def test_a_restore_that_takes_three_times_its_usual_length_is_told_although_bytes_move():
    stage = loading(1)
    for done in range(1, 9):
        stage.wait(50, every=5)
        restore(stage, 0, "end" if done == 8 else "progress", done=done, bytes=done * 10**9)
    stage.launch()
    began_at = stage.now
    restore(stage, 0, "begin", done=0, bytes=0)
    for part in range(1, 1300):
        stage.wait(1)
        restore(stage, 0, "progress", done=0, bytes=part * 10**7)
    assert stage.first("restore_stall").at - began_at == pytest.approx(1200, abs=2)


def test_ranks_that_enter_far_apart_are_shown_with_the_stall():
    stage = Stage()
    stage.launch()
    for rank in range(4):
        stage.rank("rank.phase", rank, phase="rendezvous", state="begin")
        stage.wait(40, every=5)
    stage.wait(320, every=5)
    finding = stage.last("hang")
    assert finding.facts["entry_spread_s"] == 120
    assert "the ranks entered 120 s apart" in finding.sentence


def test_a_rendezvous_that_one_rank_never_joins_counts_from_one_deadline_after_the_first():
    stage = Stage()
    stage.launch()
    for rank in range(3):
        stage.rank("rank.phase", rank, phase="rendezvous", state="begin")
    stage.wait(599, every=5)
    assert stage.log == []
    stage.wait(2)
    assert stage.last("hang").facts["waited_for"] == "rendezvous"


def test_a_phase_of_another_name_may_last_ten_minutes_or_three_times_its_usual_length():
    stage = training(seconds=20.0)
    phase(stage, "reshuffle", "begin")
    stage.wait(595, every=5)
    assert stage.log == []
    stage.wait(10, every=5)
    assert stage.last("hang").facts["waited_for"] == "reshuffle"


def test_a_launch_may_take_three_times_as_long_as_the_last_ones():
    stage = Stage()
    for _ in range(3):
        stage.attempt += 1
        stage.send("attempt.started", nodes=stage.names, world_size=4)
        stage.wait(200, every=5)
        stage.rank("rank.started", 0, pid=1)
    stage.attempt += 1
    stage.send("attempt.started", nodes=stage.names, world_size=4)
    stage.wait(595, every=5)
    assert stage.log == []
    stage.wait(10, every=5)
    assert stage.last("hang").facts["waited_for"] == "launch"


def test_a_suspicion_about_a_phase_teaches_no_patience_with_steps():
    stage = training(seconds=20.0)
    phase(stage, "save", "begin")
    stage.wait(130, every=5)
    phase(stage, "save", "end")
    stage.sweep()
    assert [item.stage for item in stage.log] == [Sure.SUSPECT, Sure.CLEARED]
    assert stage.machine.view().k == 3


def test_a_save_that_is_told_after_the_last_step_delays_the_next_one_a_little():
    stage = training(seconds=20.0)
    stepped_at = stage.now
    stage.wait(20)
    stage.rank("checkpoint", 0, step=30, state="complete", tier="persistent")
    stage.wait(54)
    assert stage.log == []
    stage.wait(2)
    assert stage.first("hang").at - stepped_at == pytest.approx(75, abs=1)
