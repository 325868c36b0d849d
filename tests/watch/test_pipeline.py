"""What the sweeps promise: order, outages, poison, restarts."""

from datetime import timedelta

import pytest

from controlplane.domain.detection.run import RunMachine
from controlplane.events import queries as events
from controlplane.fleet.models import SchedulerNode
from controlplane.runs.leases import Look
from controlplane.runs.models import Machine, Run
from controlplane.runs.queries import awake
from controlplane.watch import fleet as fleet_watch
from controlplane.watch import pipeline, sweeping
from tests.flows.conftest import training
from tests.flows.world import HEAD, Cluster

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _fresh_memory():
    pipeline.memory.forget()
    fleet_watch.memory.forget()


@pytest.fixture
def cluster():
    return training(steps=6, size=2, spares=1)


def machine(cluster):
    return Machine.objects.get(run=cluster.run)


def test_a_sweep_reads_the_log_to_its_end_and_remembers_where_it_was(cluster):
    cluster.hear()
    stored = machine(cluster)
    assert events.since(stored.cursor, run="demo", nodes={"n01", "n02", HEAD}) == []
    assert stored.owner == ""
    assert stored.swept_at == cluster.now


def test_a_reducer_in_memory_and_one_from_the_table_go_on_alike(cluster):
    cluster.tick(2)
    kept = pipeline.memory.take(machine(cluster))
    restored = RunMachine.restore(machine(cluster).snapshot, kept.policy)
    assert kept.snapshot() == restored.snapshot()


def test_a_reducer_of_another_version_is_not_used(cluster):
    Machine.objects.filter(run=cluster.run).update(version=machine(cluster).version + 1)
    assert pipeline.memory.take(machine(cluster)) is None


def test_a_long_backlog_is_taken_in_chunks_and_judged_only_at_its_end(cluster, monkeypatch):
    for _ in range(40):
        cluster.make_step()
    cluster.kill_rank(1)
    cluster.post()
    monkeypatch.setattr(pipeline, "CHUNK", 7)
    judged = []
    real = RunMachine.sweep
    monkeypatch.setattr(RunMachine, "sweep", lambda self, now: judged.append(1) or real(self, now))
    assert pipeline.sweep_run(cluster.run.pk, "me", cluster.now)
    assert len(judged) == 1
    assert cluster.incident().klass == "crash"
    assert cluster.fresh().high_water_step == cluster.step


def test_an_event_that_breaks_the_reducer_is_skipped_and_the_others_count(cluster, monkeypatch, caplog):
    real = RunMachine.observe

    def poisoned(self, signal, now):
        if signal.data.get("step") == cluster.step - 1:
            raise KeyError("poison")
        real(self, signal, now)

    monkeypatch.setattr(RunMachine, "observe", poisoned)
    cluster.make_step()
    cluster.make_step()
    cluster.post()
    pipeline.sweep_run(cluster.run.pk, "me", cluster.now)
    assert cluster.fresh().high_water_step == cluster.step
    assert "was skipped" in caplog.text


def test_a_run_that_another_worker_sweeps_is_left_alone_and_swept_once_more(cluster):
    held = pipeline.runs.lease_machine(f"run:{cluster.run.pk}", "other", cluster.now, 5)
    assert not pipeline.sweep_run(cluster.run.pk, "me", cluster.now)
    assert not sweeping.runs.release_machine(held)
    assert pipeline.sweep_run(cluster.run.pk, "me", cluster.now) is Look.DONE


def test_a_sweep_that_was_knocked_at_asks_to_be_called_again_by_a_later_clock(cluster, monkeypatch):
    name, real = f"run:{cluster.run.pk}", pipeline.incidents.settle

    def knocked(*args, **kwargs):
        assert pipeline.runs.lease_machine(name, "other", cluster.now, 5) is None
        return real(*args, **kwargs)

    monkeypatch.setattr(pipeline.incidents, "settle", knocked)
    assert pipeline.sweep_run(cluster.run.pk, "me", cluster.now) is Look.AGAIN
    monkeypatch.undo()
    assert pipeline.sweep_run(cluster.run.pk, "me", cluster.now) is Look.DONE


def test_our_own_absence_is_no_hang_and_no_lost_node(cluster):
    cluster.now += timedelta(minutes=10)  # nobody swept, nothing arrived
    cluster.hear()
    cluster.tick(20)
    assert cluster.incident() is None
    assert len(cluster.launches) == 1


def test_a_rank_that_died_while_the_control_plane_was_away_is_answered_after_its_return(cluster):
    cluster.kill_rank(1)
    cluster.post()
    cluster.now += timedelta(minutes=10)
    pipeline.memory.forget()
    fleet_watch.memory.forget()
    for node in sorted(cluster.alive):
        cluster.say(node, "node.heartbeat", uptime_s=1.0)
    cluster.until(lambda: len(cluster.launches) == 2)
    assert cluster.run.incidents.filter(klass="crash").count() == 1


def test_a_node_of_another_run_cannot_kill_this_one(cluster):
    cluster.say("n03", "rank.exited", attempt=1, rank=0, about_run=True, exit_code=1, signal=9)
    cluster.say("n01", "attempt.exited", attempt=1, about_run=True, reason="completed")
    cluster.tick(3)
    assert cluster.incident() is None
    assert cluster.fresh().state == "running"


def test_a_node_that_calls_itself_a_launcher_cannot_speak_for_the_one_of_the_run(cluster):
    cluster.say("n01", "node.hello", hardware={"machine_id": "n01"}, capabilities=["launcher"])
    cluster.tick()
    for state in ("RUNNING", "CANCELLED"):
        cluster.say("n01", "scheduler.job", attempt=1, about_run=True, job_id="demo.1", state=state, by="alice")
    cluster.say("n01", "scheduler.node", node="n02", state="down", reason="Not responding", owner="slurm")
    cluster.say("n01", "capacity.notice", what="maintenance", begins_at_ms=0, ends_at_ms=9_000_000_000_000)
    cluster.tick()
    assert not cluster.fresh().held
    assert not SchedulerNode.objects.exists()
    cluster.kill_rank(1)
    cluster.until(lambda: len(cluster.launches) == 2)


def test_events_of_a_run_that_is_created_later_are_attached_to_it(db):
    cluster = Cluster(size=2, spares=0).build()
    name = cluster.run.name
    cluster.say(HEAD, "attempt.started", attempt=1, about_run=True, nodes=["n01", "n02"], world_size=2)
    cluster.say("n01", "rank.step", attempt=1, rank=0, about_run=True, step=9, duration_ms=5.0)
    Machine.objects.all().delete()
    Run.objects.all().delete()
    cluster.post()
    cluster.run = pipeline.runs.create_run(name, launcher=HEAD, nodes_wanted=2, now=cluster.now)
    cluster.look()
    assert cluster.fresh().high_water_step == 9
    assert cluster.fresh().state == "running"


def test_runs_that_are_over_cost_nothing(cluster):
    assert list(awake()) == [cluster.run]
    cluster.complete()
    cluster.tick(2)
    assert list(awake()) == []


def test_many_silent_nodes_hold_every_restart_until_they_are_heard_again(db):
    cluster = training(steps=6, size=4, spares=2)
    cluster.alive = {HEAD}
    cluster.tick(40)
    assert "fell silent together" in Machine.objects.get(name="fleet").hold
    cluster.kill_rank(1)
    cluster.tick(10)
    assert cluster.stops == []
    assert cluster.execution().held_by == "partition"
    cluster.alive = {HEAD, *(f"n{number:02}" for number in range(1, 7))}
    cluster.until(lambda: len(cluster.launches) == 2)


def test_nodes_are_seen_at_the_time_their_words_arrived(cluster):
    before = cluster.now
    cluster.say("n03", "node.heartbeat", uptime_s=1.0)
    cluster.post()
    fleet_watch.sweep_fleet("me", before + timedelta(seconds=40))
    assert cluster.node("n03").last_seen_at == before
