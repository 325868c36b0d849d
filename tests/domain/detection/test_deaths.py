from controlplane.domain.detection.policy import RunPolicy
from controlplane.domain.diagnosis.diagnose import diagnose
from controlplane.domain.findings import Stage as Sure
from tests.domain.stage import Stage

RESET = {"type": "RuntimeError", "message": "gloo: Connection closed by peer [127.0.0.1]:3322"}


def training(**words):
    stage = Stage(**words)
    stage.launch()
    stage.train(1, 30, 2.0)
    return stage


def verdict(stage):
    newest = {item.key: item for item in stage.log}
    return diagnose(list(newest.values()), now=stage.now, policy=stage.policy)


def test_a_killed_rank_is_a_crash_at_the_very_next_sweep():
    stage = training()
    stage.rank("rank.exited", 2, exit_code=None, signal=9)
    (finding,) = stage.sweep()
    assert (finding.klass, finding.stage, finding.entity, finding.at) == ("crash", Sure.CONFIRMED, "rank:2", stage.now)
    assert finding.sentence == "rank 2 on n2 was killed by signal 9 (SIGKILL) of unknown origin at step 30"


def test_a_death_counts_also_where_the_nodes_clock_was_set_back_meanwhile():
    stage = training()
    stage.rank("rank.exited", 2, at=stage.now - 3600, pid=4002, exit_code=None, signal=9)
    (finding,) = stage.sweep()
    assert finding.entity == "rank:2"


def test_the_late_word_on_an_earlier_process_of_a_rank_is_no_death():
    stage = training()
    stage.rank("rank.started", 2, pid=5002)
    stage.rank("rank.exited", 2, at=stage.now - 1, pid=4002, exit_code=None, signal=9)
    assert stage.sweep() == []


def test_a_rank_that_is_started_again_in_its_container_lives_though_its_process_has_the_same_number():
    stage = training()
    stage.rank("rank.exited", 2, pid=4002, exit_code=1)
    stage.rank("rank.started", 2, at=stage.now + 1, pid=4002)
    assert stage.sweep() == []


def test_peers_that_fail_afterwards_are_consequences_whoever_reports_first():
    stage = training()
    for rank in (0, 1, 3):
        stage.rank("rank.exited", rank, exit_code=1, signal=None, error=RESET)
        stage.wait(0.2)
    stage.rank("rank.exited", 2, exit_code=-9, signal=9)
    stage.wait(3)
    found = verdict(stage)
    assert [blame.entity for blame in found.blamed] == ["rank:2"]
    assert set(found.cleared) == {"rank:0", "rank:1", "rank:3"}
    assert found.act_on is None


def test_peers_without_a_reason_are_consequences_too():
    stage = training()
    stage.rank("rank.exited", 2, exit_code=None, signal=9)
    stage.sweep()
    stage.wait(0.5)
    for rank in (0, 1, 3):
        stage.rank("rank.exited", rank, exit_code=1)
    stage.wait(3)
    assert [blame.entity for blame in verdict(stage).blamed] == ["rank:2"]


def test_the_blame_is_sharpened_once_the_companions_had_time_to_report():
    stage = training()
    stage.rank("rank.exited", 0, exit_code=1)
    stage.sweep()
    assert stage.last("crash").facts["cause_kind"] == "", "it may be a consequence of another's end"
    stage.rank("rank.exited", 2, exit_code=None, signal=11)
    assert stage.sweep() == []
    stage.wait(1)
    assert stage.last("crash").entity == "rank:2"
    assert len({item.key for item in stage.log}) == 1


def test_the_same_exception_on_all_ranks_is_the_workload():
    stage = training()
    for rank in range(4):
        stage.rank("rank.exited", rank, exit_code=1, error={"type": "KeyError", "message": "'tokens'"})
    stage.wait(2)
    assert verdict(stage).blamed[0].entity == "workload"
    assert verdict(stage).act_on is None


def test_the_log_tells_the_exception_when_there_is_no_error_file():
    stage = training()
    text = "Traceback (most recent call last):\n  File 'train.py'\nValueError: loss is not finite\n"
    stage.rank("rank.log", 1, stream="stderr", text=text)
    stage.rank("rank.exited", 1, exit_code=1)
    stage.sweep()
    assert "raised ValueError: loss is not finite" in stage.last("crash").sentence


def test_ranks_that_all_end_well_complete_the_attempt():
    stage = training()
    for rank in range(4):
        stage.rank("rank.exited", rank, exit_code=0)
        stage.wait(1)
    stage.wait(600)
    assert stage.log == []
    assert stage.machine.view().state == "completed"


def test_machines_that_vanish_after_the_end_are_no_trouble_of_the_run():
    stage = training()
    stage.send("attempt.exited", reason="completed", exit_code=0)
    stage.mute |= {"n0", "n1", "n2", "n3"}
    stage.wait(900)
    assert stage.log == []


def test_a_completion_takes_back_what_was_suspected():
    stage = training()
    stage.wait(60)
    stage.send("attempt.exited", reason="completed", exit_code=0)
    stage.sweep()
    assert [item.stage for item in stage.log] == [Sure.SUSPECT, Sure.CLEARED]


def test_what_we_stop_ourselves_is_no_crash():
    stage = training()
    stage.machine.rest(stage.now)
    for rank in range(4):
        stage.rank("rank.exited", rank, exit_code=None, signal=15)
    stage.send("attempt.exited", reason="killed")
    stage.wait(600)
    assert stage.log == []


def test_a_person_who_cancels_the_job_causes_no_incident():
    stage = training()
    stage.send("scheduler.job", state="CANCELLED", by="ana", job_id="7")
    stage.rank("rank.exited", 1, exit_code=None, signal=15)
    stage.wait(200)
    assert stage.log == []


def test_an_attempt_that_fails_without_a_word_from_its_ranks_is_a_crash():
    stage = training()
    stage.send("attempt.exited", reason="failed", exit_code=1)
    stage.sweep()
    assert stage.last("crash").entity == "run"
    assert "no rank said why" in stage.last("crash").sentence


def test_a_rank_whose_end_nobody_saw_counts_as_dead():
    stage = training()
    stage.rank("rank.exited", 1, exit_code=None, signal=None)
    stage.sweep()
    assert stage.last("crash").entity == "rank:1"


def test_a_rank_that_leaves_early_is_suspected_and_not_its_neighbour():
    stage = training()
    stage.rank("rank.exited", 3, exit_code=0)
    stage.wait(2)
    assert stage.log == []
    for rank in range(3):
        stage.rank("rank.exited", rank, exit_code=1, error=RESET)
    stage.wait(3)
    assert verdict(stage).blamed[0].entity == "rank:3"


def test_survivors_that_do_not_end_raise_the_class():
    stage = training()
    stage.rank("rank.exited", 1, exit_code=None, signal=11)
    stage.wait(29)
    assert stage.classes() == {"crash"}
    stage.wait(2)
    assert stage.last("crash_no_exit").key == stage.first("crash").key


def test_a_dead_rank_of_an_earlier_attempt_is_history():
    stage = training()
    stage.launch(resume=20)
    stage.rank("rank.exited", 2, attempt=1, exit_code=None, signal=9)
    stage.wait(5)
    assert stage.log == []


def test_a_restarted_rank_lives_whatever_the_order_of_the_news():
    stage = training()
    later = stage.now + 5
    stage.rank("rank.started", 2, pid=9, at=later)
    stage.rank("rank.exited", 2, exit_code=None, signal=9, at=later - 1)
    stage.sweep()
    assert stage.log == []


def test_a_crash_while_we_are_blind_is_told_all_the_same():
    stage = training(policy=RunPolicy(observe_s=600))
    stage.now += 120
    stage.sweep()
    stage.rank("rank.exited", 2, exit_code=None, signal=9)
    stage.sweep()
    assert stage.last("crash").stage == Sure.CONFIRMED


def test_the_next_attempt_starts_with_a_clean_slate():
    stage = training()
    stage.rank("rank.exited", 2, exit_code=None, signal=9)
    stage.sweep()
    stage.machine.rest(stage.now)
    stage.launch(resume=20)
    stage.train(21, 60, 2.0)
    assert len(stage.log) == 1
    stage.rank("rank.exited", 2, exit_code=None, signal=9)
    stage.sweep()
    assert stage.log[-1].attempt == 2
    assert stage.log[-1].key != stage.log[0].key


def test_a_preemption_is_planned_and_no_crash():
    stage = training()
    stage.send("attempt.exited", reason="preempted", exit_code=0)
    for name in stage.names:
        stage.scheduler_says(name, "drained")
    stage.wait(600)
    assert {item.klass for item in stage.log} == {"capacity"}


def test_survivors_under_our_own_launcher_are_given_three_seconds():
    stage = Stage()
    stage.attempt = 1
    stage.send("attempt.started", nodes=stage.names, world_size=4, scheduler="local")
    for rank in range(4):
        stage.rank("rank.started", rank, pid=1)
    stage.rank("rank.exited", 1, exit_code=None, signal=11)
    stage.sweep()
    stage.wait(2.5, every=0.5)
    assert stage.classes() == {"crash"}
    stage.wait(1)
    assert stage.last("crash_no_exit").facts["survivors"] == 3


def test_a_job_that_ends_by_itself_leaves_no_survivors_to_be_told_of():
    stage = training()
    stage.rank("rank.exited", 1, exit_code=None, signal=11)
    stage.sweep()
    assert (stage.last("crash").facts["job_running"], stage.last("crash").facts["cause_kind"]) == (True, "signal")
    stage.wait(5)
    stage.send("scheduler.job", state="FAILED", job_id="7")
    stage.wait(60)
    assert stage.classes() == {"crash"}
    assert stage.machine.due(stage.now) is not None


def test_the_moment_at_which_survivors_are_told_of_is_due_without_any_signal():
    stage = training()
    stage.rank("rank.exited", 1, exit_code=None, signal=11)
    stage.sweep()
    died_at, moments = stage.now, set()
    while stage.now < died_at + 30:
        stage.now = stage.machine.due(stage.now)
        moments.add(stage.now)
    assert died_at + 30 in moments


def test_different_exceptions_of_one_type_are_not_the_same_exception():
    stage = training()
    for rank, text in enumerate(("'a'", "'b'", "'c'", "'d'")):
        stage.rank("rank.exited", rank, exit_code=1, error={"type": "KeyError", "message": text})
    stage.wait(2)
    assert stage.last("crash").entity == "rank:0"


def test_one_exception_from_different_lines_is_not_the_same_exception():
    stage = training()
    for rank in range(4):
        tail = f'File "/app/train/data.py", line {rank + 7}, in collate'
        error = {"type": "KeyError", "message": "'x'", "traceback_tail": tail}
        stage.rank("rank.exited", rank, exit_code=1, error=error)
    stage.wait(2)
    assert stage.last("crash").facts["fingerprint"] == "KeyError: 'x' at data.py:7"
    assert stage.last("crash").facts["cause_kind"] == "error"
    assert stage.last("crash").entity == "rank:0"


def test_each_line_of_evidence_says_of_what_kind_it_is():
    stage = training()
    stage.rank("rank.exited", 2, exit_code=None, signal=11)
    stage.rank("rank.exited", 0, exit_code=1, error=RESET)
    stage.wait(2)
    assert {(line.entity, line.kind) for line in stage.last("crash").evidence} == {
        ("rank:2", "SIGSEGV"),
        ("rank:0", "peer reset"),
    }
    assert not any(line.entity.startswith("node:") for line in stage.last("crash").evidence)
