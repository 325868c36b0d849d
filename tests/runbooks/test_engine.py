"""The engine's own rules, told with the smallest cluster that can break."""

from datetime import timedelta

import pytest
from django.db import DataError

from controlplane.domain.errors import Conflict, Invalid, Refused
from controlplane.incidents.models import Incident
from controlplane.runbooks import actions, engine, guards, registry
from controlplane.runbooks.models import Bucket, BucketSpend, Execution, StepRun
from controlplane.runbooks.steps.choose_checkpoint import ChooseCheckpoint
from controlplane.runbooks.steps.stop import Stop
from controlplane.runs import queries as runs
from controlplane.runs.models import Attempt
from tests.flows.conftest import training
from tests.flows.world import Cluster

pytestmark = pytest.mark.django_db


@pytest.fixture
def cluster():
    return training(steps=6, size=2, spares=1)


def broken(cluster):
    cluster.kill_rank(1)
    cluster.until(lambda: cluster.execution() is not None)
    return cluster


def test_an_execution_that_another_worker_has_is_left_alone_and_looked_at_again(cluster):
    broken(cluster)
    execution = cluster.execution()
    Execution.objects.update(owner="other", lease_until=cluster.now + timedelta(seconds=5))
    assert not engine.advance(execution.pk, "me", cluster.now)
    assert Execution.objects.get().knocks == 1
    assert engine.advance(execution.pk, "me", cluster.now + timedelta(seconds=6))
    assert Execution.objects.get().owner == ""


def test_a_worker_that_lost_its_lease_in_the_middle_writes_nothing(cluster, monkeypatch):
    broken(cluster)
    execution = cluster.execution()
    taken, real = [], engine._turn

    def robbed(going, now):
        """Another worker claims the execution just before this one's next transition."""
        taken.append(going.lease)
        Execution.objects.filter(pk=execution.pk).update(fence=going.lease.fence + 1, owner="thief")
        return real(going, now)

    before = list(StepRun.objects.values())
    monkeypatch.setattr(engine, "_turn", robbed)
    engine.advance(execution.pk, "me", cluster.now)
    assert taken
    assert Execution.objects.get().owner == "thief"
    assert list(StepRun.objects.values()) == before


def test_a_finished_execution_is_not_advanced(cluster):
    broken(cluster)
    Execution.objects.update(state="succeeded")
    assert not engine.advance(cluster.execution().pk, "me", cluster.now)


def test_a_step_that_raises_is_tried_again_and_then_given_up(cluster, monkeypatch):
    def broken_look(self, turn):
        raise DataError("value too long")

    monkeypatch.setattr(ChooseCheckpoint, "look", broken_look)
    broken(cluster)
    cluster.until(lambda: Execution.objects.filter(state="failed").exists())
    tries = StepRun.objects.filter(name="choose_checkpoint", execution=Execution.objects.earliest("pk"))
    assert [(row.try_number, row.state) for row in tries] == [(1, "failed"), (2, "failed"), (3, "failed")]
    assert "DataError" in tries[0].result["why"]


def test_after_two_failed_executions_on_one_attempt_a_person_is_asked(cluster):
    for found in cluster.disk:
        found["state"] = "torn"
    broken(cluster)
    cluster.until(lambda: cluster.run.executions.filter(state="proposed").exists(), limit=60)
    assert list(cluster.run.executions.order_by("pk").values_list("state", "held_by")) == [
        ("failed", ""), ("failed", ""), ("proposed", "repeat"),
    ]  # fmt: skip
    assert BucketSpend.objects.count() == 1
    assert any("a person has to decide" in line for line in cluster.told(f"incident:{cluster.incident().pk}"))
    for found in cluster.disk:
        found["state"] = "complete"
    actions.approve(cluster.execution(), "ana", cluster.now)
    cluster.until(lambda: len(cluster.launches) == 2)


def test_a_launch_that_fails_is_tried_once_more_as_a_new_attempt(cluster):
    cluster.fail_kinds["attempt.start"] = "no port is free"
    broken(cluster)
    cluster.until(lambda: StepRun.objects.filter(name="launch", state="failed").exists())
    cluster.fail_kinds.clear()
    cluster.until(lambda: cluster.incident().state != "open")
    assert list(Attempt.objects.values_list("number", "state", "reason")) == [
        (1, "exited", "killed"), (2, "exited", "failed"), (3, "running", ""),
    ]  # fmt: skip
    assert cluster.run.executions.count() == 1
    assert cluster.sent("attempt.stop").filter(args__attempt=2).exists()


def test_when_the_disk_cannot_be_scanned_the_ledger_decides_and_says_so(cluster):
    cluster.fail_kinds["checkpoints.scan"] = "permission denied"
    broken(cluster)
    cluster.until(lambda: len(cluster.launches) == 2)
    assert cluster.launches[-1]["resume"]["step"] == 5
    assert any("by the ledger alone" in line for line in cluster.told(f"incident:{cluster.incident().pk}"))


def test_the_disk_is_looked_at_once_while_a_crashed_job_still_ends(cluster):
    broken(cluster)
    cluster.until(lambda: len(cluster.launches) == 2)
    looks = [command.idempotency_key.rsplit(":", 1)[-1] for command in cluster.sent("checkpoints.scan")]
    assert looks == ["early"]


def test_what_was_saved_after_the_early_look_is_looked_for_again(cluster):
    cluster.mute_kinds.add("attempt.stop")
    broken(cluster)
    cluster.until(lambda: StepRun.objects.filter(name="stop").exists())
    cluster.save("complete", step=6)
    cluster.tick()
    cluster.mute_kinds.clear()
    cluster.until(lambda: len(cluster.launches) == 2)
    assert len(cluster.sent("checkpoints.scan")) == 2
    assert cluster.launches[-1]["resume"]["step"] == 6


def test_an_incident_that_is_resolved_in_the_moment_of_the_stop_ends_every_rung_of_the_teardown(cluster, monkeypatch):
    real = Stop.begin

    def resolved_first(self, turn):
        Incident.objects.update(state="resolved")
        return real(self, turn)

    monkeypatch.setattr(Stop, "begin", resolved_first)
    broken(cluster)
    cluster.until(lambda: cluster.execution().finished_at is not None, limit=30)
    assert (cluster.execution().state, cluster.stops, cluster.sent("ranks.stop").count()) == ("succeeded", [], 0)


def test_a_run_whose_checkpoints_are_all_torn_is_not_begun_from_the_start(cluster):
    for found in cluster.disk:
        found["state"] = "torn"
    broken(cluster)
    cluster.until(lambda: cluster.run.executions.filter(state="proposed").exists(), limit=60)
    assert len(cluster.launches) == 1
    assert any("a person has to decide" in line for line in cluster.told(f"incident:{cluster.incident().pk}"))


def test_a_launcher_that_does_not_answer_is_asked_again_and_then_the_nodes_agents_are(cluster):
    cluster.mute_kinds.add("attempt.stop")
    broken(cluster)
    cluster.until(lambda: cluster.sent("ranks.stop").exists(), limit=250)
    tries = StepRun.objects.filter(name="stop", execution=Execution.objects.earliest("pk"))
    assert tries.count() == 3
    assert [row.intent["grace_s"] for row in tries] == [0.5, 0.0, 0.0]


def test_a_token_is_spent_once_under_one_key(cluster):
    policy = runs.policy(cluster.run)
    for _ in range(3):
        assert guards.spend(cluster.run, policy, "one", cluster.now)
    assert Bucket.objects.get().tokens == policy.restart_capacity - 1
    for number in range(policy.restart_capacity - 1):
        assert guards.spend(cluster.run, policy, f"more {number}", cluster.now)
    assert not guards.spend(cluster.run, policy, "too many", cluster.now)
    assert guards.bucket_of(cluster.run, policy, cluster.now).tokens == pytest.approx(0)
    later = cluster.now + timedelta(seconds=policy.restart_refill_s)
    assert guards.spend(cluster.run, policy, "too many", later)


def test_a_person_cannot_launch_beside_a_living_attempt_or_on_unfit_nodes(cluster):
    with pytest.raises(Conflict):
        actions.launch(cluster.run, None, "ana", cluster.now)
    cluster.mute_kinds.add("checkpoints.scan")
    broken(cluster)
    cluster.until(lambda: cluster.newest().state == "exited")
    actions.stop(cluster.execution(), "ana", cluster.now)
    cluster.tick(2)
    for wrong in (["n01"], ["n01", "n01"], ["n01", "head"], ["n01", "n99"]):
        with pytest.raises(Invalid):
            actions.launch(cluster.run, wrong, "ana", cluster.now)
    cluster.run.refresh_from_db()
    assert actions.launch(cluster.run, ["n03", "n01"], "ana", cluster.now).nodes == ["n03", "n01"]


def test_a_launch_that_the_launcher_refuses_is_told_and_may_be_tried_again(db):
    cluster = Cluster(size=2, spares=0).build()
    cluster.fail_kinds["attempt.start"] = "no such run in launcher.toml"
    cluster.launch()
    cluster.tick(2)
    assert "no such run in launcher.toml" in cluster.told("run:demo")[-1]
    cluster.fail_kinds.clear()
    assert actions.launch(cluster.run, None, "ana", cluster.now).number == 2


@pytest.mark.parametrize("act", [actions.approve, actions.reject, actions.resume])
def test_an_act_that_does_not_fit_the_state_is_a_conflict(cluster, act):
    broken(cluster)
    with pytest.raises(Conflict):
        act(cluster.execution(), "ana", cluster.now)


def test_a_held_run_is_not_launched(cluster):
    cluster.run.held, cluster.run.held_by = True, "ana"
    cluster.run.save()
    with pytest.raises(Refused):
        actions.launch(cluster.run, None, "ben", cluster.now)


def test_every_runbook_step_has_code(db):
    for runbook in registry.catalog().runbooks.values():
        assert all(registry.step(spec.action.name) for spec in runbook.steps)
