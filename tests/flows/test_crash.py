from controlplane.fleet.models import Command
from controlplane.runbooks.models import ExecutionState
from controlplane.runs.models import RunState


def test_a_run_trains_after_a_person_launched_it(cluster):
    assert cluster.fresh().state == RunState.RUNNING
    assert cluster.fresh().high_water_step >= 7
    assert cluster.newest().nodes == ["n01", "n02", "n03", "n04"]
    assert cluster.incident() is None
    assert [cluster.node(name).state for name in ("n01", "n05", "head")] == ["healthy", "spare", "spare"]


def test_a_killed_rank_brings_the_run_back_from_its_newest_checkpoint(cluster):
    before = cluster.step
    cluster.kill_rank(2)
    cluster.until(lambda: cluster.incident() and cluster.execution().finished_at is not None)
    incident = cluster.incident()
    assert cluster.execution().state == ExecutionState.SUCCEEDED
    assert incident.klass == "crash_no_exit", "its peers lived on"
    assert [item["attempt"] for item in cluster.launches] == [1, 2]
    assert cluster.launches[-1]["resume"]["step"] == 5
    assert incident.losses["steps"] == before - 5
    assert incident.losses["confidence"] == "measured"
    assert cluster.fresh().state == RunState.RUNNING


def test_a_killed_rank_whose_peers_begin_to_end_is_not_waited_for_to_the_end_of_the_last(cluster):
    cluster.kill_rank(2)
    cluster.hear()
    cluster.hear()
    assert cluster.execution().steps.order_by("pk").last().sentence == "the job to end by itself"
    lose_peer(cluster, 0)
    cluster.hear()
    assert [item["attempt"] for item in cluster.stops] == []
    assert cluster.execution().steps.order_by("pk").last().name == "stop"
    cluster.until(lambda: cluster.execution().finished_at is not None)
    assert cluster.incident().klass == "crash", "its peers were about to end"
    assert [item["attempt"] for item in cluster.launches] == [1, 2]


def test_a_peer_that_raised_is_not_waited_for_until_it_has_taken_itself_down(cluster):
    cluster.kill_rank(2)
    cluster.rank_says(0, "rank.log", stream="log", text="[W] socket: Connection reset by peer")
    elsewhere = {"attempt": cluster.attempt, "rank": 0, "about_run": True}
    cluster.say("n05", "rank.log", stream="log", text="Traceback (most recent call last):", **elsewhere)
    cluster.hear()
    cluster.hear()
    told = "a warning ends no rank, nor does a node that has none of them"
    assert cluster.execution().steps.order_by("pk").last().name == "confirm", told
    cluster.rank_says(0, "rank.log", stream="log", text="[rank0]: Traceback (most recent call last):")
    cluster.hear()
    assert cluster.execution().steps.order_by("pk").last().name == "stop"


def test_no_stacks_are_waited_for_of_peers_that_begin_to_end(cluster):
    cluster.mute_kinds.add("collect")
    cluster.kill_rank(2)
    cluster.hear()
    assert cluster.execution().steps.order_by("pk").last().name == "collect"
    lose_peer(cluster, 0)
    cluster.hear()
    assert cluster.execution().steps.order_by("pk").last().name == "stop"


def test_an_exception_is_given_time_to_turn_out_as_one_of_all_ranks(cluster):
    error = {"type": "KeyError", "message": "'x'", "traceback_tail": 'File "data.py", line 7'}
    for rank in (1, 2):
        cluster.ranks[rank].alive = False
        cluster.rank_says(rank, "rank.exited", exit_code=1, signal=None, error=error)
        cluster.hear()
    cluster.hear()
    assert cluster.execution().steps.order_by("pk").last().name == "confirm"
    cluster.until(lambda: cluster.stops, limit=2)
    assert cluster.incident().title.startswith("2 of 4 ranks raised KeyError")


def lose_peer(cluster, rank):
    """Let a rank end as one does whose peer is gone."""
    cluster.ranks[rank].alive = False
    error = {"type": "RuntimeError", "message": "Connection closed by peer", "traceback_tail": ""}
    cluster.rank_says(rank, "rank.exited", exit_code=1, signal=None, error=error)


def test_a_successor_that_began_before_the_restart_is_taken_for_the_attempt(cluster):
    there = ["n01", "n02", "n03", "n05"]

    def forestalled(node, args):
        return cluster.start(node, {**args, "nodes": there, "resume": {"step": 5}}) | {"nodes": there}

    cluster.also["attempt.start"] = forestalled
    cluster.kill_rank(2)
    cluster.until(lambda: cluster.incident() and cluster.execution().finished_at is not None)
    assert cluster.execution().state == ExecutionState.SUCCEEDED
    assert (cluster.newest().number, cluster.newest().nodes) == (2, there)
    assert [cluster.node(name).state for name in ("n04", "n05")] == ["spare", "healthy"]
    assert "launch: Attempt 2 had begun by itself on n01, n02, n03 and n05 from step 5, and goes on." in cluster.told()


def test_a_successor_that_cannot_be_used_is_stopped_before_the_next_attempt(cluster, monkeypatch):
    done = cluster.do

    def refuse_once(node, command):
        if command.kind == "attempt.start" and command.args["attempt"] == 2:
            told = {"state": "refused", "output_tail": "was started with other nodes or step"}
            return cluster.say(node, "command.result", command_id=str(command.pk), **told)
        return done(node, command)

    monkeypatch.setattr(cluster, "do", refuse_once)
    cluster.kill_rank(2)
    cluster.until(lambda: cluster.incident() and cluster.execution().finished_at is not None)
    assert [item["attempt"] for item in cluster.stops] == [1, 2]
    assert [item["attempt"] for item in cluster.launches] == [1, 3]


def test_the_first_action_comes_in_the_same_look_that_sees_the_death(cluster):
    cluster.kill_rank(2)
    cluster.post()
    cluster.look()
    assert Command.objects.filter(kind="collect").count() == 4


def test_a_cause_of_unknown_origin_is_mitigated_and_resolved_behind_the_next_checkpoint(cluster):
    cluster.kill_rank(2)
    cluster.until(lambda: cluster.incident() and cluster.incident().state == "mitigated")
    onset = cluster.incident().onset_step
    cluster.until(lambda: cluster.incident().state == "resolved")
    assert cluster.step > onset
    assert "checkpoint of step 10" in cluster.told(f"incident:{cluster.incident().pk}")[-1]


def test_the_ranks_that_we_stop_ourselves_are_no_second_incident(cluster):
    cluster.kill_rank(2)
    cluster.until(lambda: cluster.incident() and cluster.incident().state == "resolved")
    cluster.rest(30)
    assert cluster.run.incidents.count() == 1
    assert cluster.run.executions.count() == 1
    assert len(cluster.launches) == 2


def test_a_torn_checkpoint_is_passed_over(cluster):
    cluster.save("torn", step=cluster.step)
    cluster.disk[0]["state"] = "torn"
    cluster.kill_rank(0)
    cluster.until(lambda: len(cluster.launches) == 2)
    assert cluster.launches[-1]["resume"]["step"] == 5
    assert any("passed over" in line for line in cluster.told(f"incident:{cluster.incident().pk}"))


def test_a_run_that_completes_is_no_incident_and_is_never_restarted(cluster):
    cluster.complete()
    cluster.rest(40)
    assert cluster.fresh().state == RunState.COMPLETED
    assert cluster.incident() is None
    assert len(cluster.launches) == 1


def test_a_new_attempt_that_dies_is_answered_again_in_the_same_incident(cluster):
    cluster.kill_rank(2)
    cluster.until(lambda: len(cluster.launches) == 2)
    cluster.kill_rank(1, signal=11)
    cluster.until(lambda: len(cluster.launches) == 3)
    assert cluster.run.incidents.count() == 1
    states = list(cluster.run.executions.order_by("pk").values_list("attempt", "state"))
    assert states[0] == (1, "failed")
    assert states[1][0] == 2
    cluster.until(lambda: cluster.incident().state != "open")


def test_the_chronicle_tells_the_story_in_order_and_each_thing_once(cluster):
    cluster.kill_rank(2)
    cluster.until(lambda: cluster.incident() and cluster.incident().state == "resolved")
    told = cluster.told(f"incident:{cluster.incident().pk}")
    kinds = [line.partition(":")[0] for line in told]
    assert kinds[0] == "opened"
    assert kinds.index("decision") < kinds.index("step") < kinds.index("progress") < kinds.index("mitigated")
    assert kinds[-1] == "resolved"
    assert len(told) == len(set(told))
    run = [line.partition(":")[0] for line in cluster.told("run:demo")]
    assert run == ["note", "launch", "launch", "opened", "exit", "launch", "mitigated", "resolved"]


def test_steps_that_arrive_behind_the_death_count_as_lost(cluster):
    cluster.make_step()
    cluster.make_step()
    late = cluster.waiting.pop("n01")
    cluster.kill_rank(1)
    cluster.until(lambda: len(cluster.launches) == 2)
    cluster.waiting["n01"][:0] = late
    cluster.until(lambda: cluster.incident().state != "open")
    assert cluster.incident().losses["steps"] == 9 - 5
