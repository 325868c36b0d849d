"""Who cancels the job of a run at the scheduler has spoken: the run is held in that person's name."""

import pytest

from controlplane.fleet.models import Command
from controlplane.incidents.models import Incident
from controlplane.runbooks import switches
from controlplane.runs import actions as runs
from controlplane.runs.models import Attempt
from controlplane.runs.queueing import settle_again
from tests.flows.conftest import trained
from tests.flows.world import HEAD, Cluster

pytestmark = pytest.mark.django_db


@pytest.fixture
def cluster():
    world = Cluster(size=2, spares=1)
    world.mute_kinds |= {"job.hold", "job.release"}
    trained(world.build(), steps=3)
    Attempt.objects.filter(run=world.run).update(job_id="7001", scheduler="slurm")
    return world


def job(cluster, state, *, job_id="7001", attempt=1, **data):
    cluster.say(HEAD, "scheduler.job", attempt=attempt, about_run=True, job_id=job_id, state=state, **data)
    cluster.hear()


def sent():
    return list(
        Command.objects.filter(kind__startswith="job.").order_by("idempotency_key").values_list("kind", flat=True)
    )


def test_a_cancelled_job_holds_the_run_and_what_waits_behind_it(cluster):
    job(cluster, "CANCELLED", by="ana")
    cluster.tick(5)
    run = cluster.fresh()
    assert (run.held, run.held_by) == (True, "ana")
    assert sent() == ["job.hold"]
    assert len(cluster.launches) == 1
    assert not Incident.objects.filter(klass="crash").exists()
    assert any("Job 7001 of run demo was cancelled, so the run is held in the name of ana" in line
               for line in cluster.told("run:demo"))  # fmt: skip


def test_the_hold_ends_with_a_persons_word_and_is_not_put_back_by_a_repeated_event(cluster):
    job(cluster, "CANCELLED")
    assert cluster.fresh().held_by == "whoever cancelled job 7001"
    runs.resume(cluster.fresh(), "ben", cluster.now)
    assert sent() == ["job.hold", "job.release"]
    job(cluster, "CANCELLED")
    assert not cluster.fresh().held


def test_our_own_stop_and_the_end_of_another_job_hold_nothing(cluster):
    job(cluster, "CANCELLED", by="middlewatch")
    job(cluster, "CANCELLED", job_id="7002", attempt=None, by="ana")
    assert not cluster.fresh().held
    runs.mark_stopping(cluster.newest(), cluster.now)
    job(cluster, "CANCELLED", by="ana")
    assert not cluster.fresh().held


def test_a_hold_or_the_kill_switch_keeps_what_waits_in_the_queue_until_both_are_gone(cluster):
    run, now = cluster.fresh(), cluster.now
    runs.hold(run, "ana", now)
    switches.off(run, "ana", "", now)
    runs.resume(run, "ana", now)
    assert sent() == ["job.hold"]
    switches.off(None, "ana", "", now)
    switches.on(run, "ana", now)
    assert sent() == ["job.hold"]
    switches.on(None, "ana", now)
    assert sent() == ["job.hold", "job.release"]


def test_a_run_whose_launcher_has_no_queue_is_held_without_asking_it(cluster):
    Attempt.objects.update(scheduler="local")
    runs.hold(cluster.fresh(), "ana", cluster.now)
    assert sent() == []


def test_a_cancelled_job_takes_over_the_hold_of_a_runbook_but_not_that_of_another_person(cluster):
    runs.hold(cluster.fresh(), "numerical-hold (execution 7)", cluster.now)
    job(cluster, "CANCELLED", by="ana")
    assert cluster.fresh().held_by == "ana"
    runs.resume(cluster.fresh(), "ana", cluster.now)
    runs.hold(cluster.fresh(), "ben", cluster.now)
    job(cluster, "RUNNING")
    job(cluster, "CANCELLED", by="ana")
    assert cluster.fresh().held_by == "ben"


def test_ranks_that_die_before_the_scheduler_says_why_are_not_restarted_against_the_persons_will(cluster):
    started = {"scheduler": "slurm", "job_id": "7001", "nodes": ["n01", "n02"], "world_size": 2, "resume": {"step": 0}}
    cluster.say(HEAD, "attempt.started", attempt=1, about_run=True, **started)
    for rank in (0, 1):
        cluster.kill_rank(rank, signal=15)
    cluster.tick(5)
    assert cluster.incident().confirmed_at is None
    job(cluster, "CANCELLED", by="ana")
    cluster.say(HEAD, "attempt.exited", attempt=1, about_run=True, reason="killed", by="ana", exit_code=143)
    cluster.until(lambda: cluster.incident().state == "resolved", limit=10)
    cluster.rest(60)
    assert (len(cluster.launches), cluster.stops, cluster.fresh().held_by) == (1, [], "ana")


def test_a_hold_that_came_to_nothing_while_the_scheduler_was_away_is_asked_for_again(cluster):
    runs.hold(cluster.fresh(), "ana", cluster.now)
    settle_again(cluster.now)
    assert sent() == ["job.hold"]
    Command.objects.filter(kind="job.hold").update(state="failed")
    for _ in range(2):
        settle_again(cluster.now)
        assert sent() == ["job.hold", "job.hold"]
    Command.objects.filter(state="pending").update(state="refused")
    settle_again(cluster.now)
    assert sent() == ["job.hold", "job.hold"]
