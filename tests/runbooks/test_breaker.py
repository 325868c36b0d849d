"""What keeps automation itself from becoming the trouble: storms, many runs at once, the limits of going back."""

from datetime import timedelta

import pytest

from controlplane.domain.errors import Conflict
from controlplane.incidents.models import ActRecord
from controlplane.runbooks import actions, budgets, guards, switches
from controlplane.runbooks.models import BucketSpend, Execution
from controlplane.runbooks.queries import live_of
from controlplane.runs import queries as runs
from controlplane.runs.models import Run
from controlplane.watch import fleet, pipeline
from tests.flows.conftest import trained, training
from tests.flows.world import Cluster
from tests.runbooks.test_answers import tell

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)
LEAP_S = 120
ANOTHER = "another:1"
CALM = {"silence_s": 600.0, "hang_floor_s": 600.0, "early_deadline_s": 600.0, "heartbeat_s": 200.0}


def leap(cluster):
    """Let two minutes go by; every agent that lives says so at its end."""
    cluster.now += timedelta(seconds=LEAP_S)
    for node in sorted(cluster.alive):
        cluster.say(node, "node.heartbeat", uptime_s=1.0)
    cluster.catch_up()


def another_control_plane(cluster):
    """Every process is started anew: nothing but the tables is left."""
    pipeline.memory.forget()
    fleet.memory.forget()
    cluster.owner = ANOTHER


def fail(cluster, signal):
    """The whole job ends, as its launcher says."""
    for rank in cluster.ranks:
        cluster.kill_rank(rank, signal=signal)
    cluster.say("head", "attempt.exited", attempt=cluster.attempt, about_run=True, reason="failed", exit_code=1)


def storm(cluster, steps):
    """A job that dies after so many steps of each launch, for an hour."""
    cluster.tick(2)
    began = cluster.now
    while cluster.now - began < HOUR:
        if cluster.ranks and all(rank.alive for rank in cluster.ranks.values()):
            cluster.tick(steps)
            fail(cluster, signal=(9, 11, 7)[cluster.attempt % 3])
        elif live_of(cluster.run).exists():
            cluster.tick()
        else:
            leap(cluster)
        if len(cluster.launches) == 3 and cluster.owner != ANOTHER:
            another_control_plane(cluster)


def test_a_job_that_saves_and_dies_is_stopped_by_the_breaker_and_no_token_is_lost_on_the_way():
    cluster = Cluster(size=2, spares=0, save_every=1)
    cluster.policy |= CALM
    cluster.build().launch()
    storm(cluster, steps=2)
    assert 5 <= len(cluster.launches) <= 7
    assert BucketSpend.objects.count() == len(cluster.launches) - 1
    assert switches.state(cluster.run).open
    assert cluster.execution().held_by == "breaker"
    assert sum(line.startswith("hold: The breaker opened") for line in cluster.told("run:demo")) == 1
    assert ActRecord.objects.filter(do="page", why__contains="breaker").count() == 1


def test_a_job_that_dies_at_start_is_stopped_by_rule_long_before():
    cluster = Cluster(size=2, spares=0, save_every=1000)
    cluster.policy |= CALM
    cluster.build().launch()
    storm(cluster, steps=1)
    assert len(cluster.launches) <= 4
    assert cluster.execution().state == "proposed"


def proposed(cluster):
    return cluster.execution() is not None and cluster.execution().state == "proposed"


def failures(cluster, number):
    for index in range(number):
        Execution.objects.create(
            runbook="restart-after-crash", version=1, incident=cluster.incident(), run=cluster.run, attempt=0,
            state="failed", created_at=cluster.now, finished_at=cluster.now, key=f"failed:{index}",
        )  # fmt: skip


def test_an_open_breaker_only_proposes_until_a_person_resets_it():
    cluster = training(steps=6, size=2, spares=1)
    tell(cluster, "checkpoint_overdue", severity="warning")
    failures(cluster, 3)
    cluster.kill_rank(0)
    cluster.until(lambda: cluster.execution().state == "proposed", limit=20)
    assert "3 runbooks failed on this run within 60 min" in cluster.execution().incident.decision["why"]
    cluster.tick(5)
    assert cluster.stops == []
    switches.reset(cluster.run, "ana", cluster.now)
    cluster.until(lambda: len(cluster.launches) == 2, limit=30)
    with pytest.raises(Conflict):
        switches.reset(cluster.run, "ana", cluster.now)


def test_a_person_may_approve_what_an_open_breaker_proposes():
    cluster = training(steps=6, size=2, spares=1)
    tell(cluster, "checkpoint_overdue", severity="warning")
    failures(cluster, 3)
    cluster.kill_rank(0)
    cluster.until(lambda: cluster.execution().state == "proposed", limit=20)
    actions.approve(cluster.execution(), "ana", cluster.now)
    cluster.until(lambda: len(cluster.launches) == 2, limit=30)


def test_a_third_run_within_ten_minutes_needs_a_person_or_patience():
    cluster = Cluster(size=2, spares=1)
    cluster.policy |= {"blast_window_s": 20.0}
    trained(cluster.build(), steps=6)
    for name in ("one", "two"):
        other = Run.objects.create(name=name, launcher="head", nodes_wanted=1, created_at=cluster.now)
        assert guards.spend(other, runs.policy(other), f"{name}:1", cluster.now)
    cluster.kill_rank(0)
    cluster.until(lambda: cluster.execution() is not None, limit=20)
    assert cluster.execution().held_by == "runs"
    cluster.until(lambda: len(cluster.launches) == 2, limit=40)


def test_more_than_two_distrusted_checkpoints_are_a_persons_to_pass_over():
    cluster = training(steps=9, size=2, spares=1, save_every=2)
    cluster.kill_rank(0)
    for step in (4, 6, 8):
        tell(cluster, "checkpoint_poison", entity=f"checkpoint:{step}", step=step)
    cluster.until(lambda: cluster.execution() is not None and cluster.execution().held_by == "back", limit=40)
    cluster.tick(5)
    assert (len(cluster.launches), cluster.execution().state) == (1, "proposed")
    actions.approve(cluster.execution(), "ana", cluster.now)
    cluster.until(lambda: len(cluster.launches) == 2, limit=40)
    assert cluster.launches[-1]["resume"]["step"] == 2


def test_three_crashes_at_one_step_on_three_nodes_stop_the_run_and_condemn_nobody():
    cluster = training(steps=6, size=3, spares=2, save_every=5)
    error = {"type": "AssertionError", "message": "sample too long", "traceback_tail": ""}
    for rank in range(3):
        cluster.until(lambda: cluster.step == 8, limit=20)
        cluster.rank_says(rank, "rank.exited", exit_code=1, signal=None, error=error)
        cluster.ranks.clear()
        cluster.say("head", "attempt.exited", attempt=cluster.attempt, about_run=True, reason="failed", exit_code=1)
        known = len(cluster.launches)
        cluster.until(lambda: len(cluster.launches) > known or proposed(cluster), limit=90)  # noqa: B023
        if proposed(cluster):
            break
    assert proposed(cluster)
    assert len(cluster.launches) <= 3
    assert ActRecord.objects.filter(do="page").exists()
    assert not ActRecord.objects.filter(do="quarantine").exists()


def test_every_guard_tells_in_words_what_is_left():
    cluster = training(steps=6, size=2, spares=1)
    cluster.kill_rank(0)
    cluster.until(lambda: len(cluster.launches) == 2)
    of_run = {budget.name: budget for budget in budgets.of(cluster.run, cluster.now)}
    assert of_run["Restarts"].words.startswith("3 of 4 restarts left, the next is earned back in 29 min")
    assert of_run["Restarts"].refills_at - cluster.now <= timedelta(minutes=30)
    assert all(budget.open for name, budget in of_run.items() if name != "Pause before a restart")
    of_fleet = {budget.name: budget.words for budget in budgets.of(None, cluster.now)}
    assert of_fleet["Runs at once"] == "automation acted on 1 of 2 runs within 10 min"
    assert of_fleet["Spares"] == "1 spare may be used on a suspicion"
