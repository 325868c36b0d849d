"""What single shipped runbooks do beyond a plain restart."""

import pytest

from controlplane.domain.errors import Refused
from controlplane.domain.findings import Stage
from controlplane.fleet import actions as fleet
from controlplane.incidents.models import ActRecord, Silence
from controlplane.quarantine.models import Freeze
from controlplane.runbooks import starting
from controlplane.runbooks.models import StepRun
from tests.flows.conftest import training
from tests.flows.world import POLICY
from tests.runbooks.test_answers import tell

pytestmark = pytest.mark.django_db


def steps(execution):
    return [(row.name, row.state) for row in StepRun.objects.filter(execution=execution).order_by("index", "pk")]


def test_a_run_that_hangs_again_is_stopped_and_a_person_is_asked_about_the_restart():
    cluster = training(steps=6, size=2, spares=1)
    cluster.save_every = 1000
    for launches in (1, 2):
        cluster.training = False
        tell(cluster, "hang", entity=f"run {launches}", fingerprint="all_reduce")
        cluster.until(lambda launches=launches: len(cluster.stops) == launches, limit=60)
        cluster.training = True
        if launches == 1:
            cluster.until(lambda: cluster.run.executions.filter(state="succeeded").exists(), limit=60)
    cluster.tick(5)
    assert list(cluster.run.executions.order_by("pk").values_list("runbook", "state", "held_by")) == [
        ("recover-hang", "succeeded", ""), ("stop-hang", "succeeded", ""), ("recover-hang", "proposed", "repeat"),
    ]  # fmt: skip
    assert len(cluster.launches) == 2
    assert ActRecord.objects.filter(do="page").exists()


def test_a_condemned_node_is_kept_out_before_the_attempt_is_stopped():
    cluster = training(steps=6, size=2, spares=1)
    tell(cluster, "node_lost", entity="node:n02", weight=6.0)
    cluster.until(lambda: cluster.stops, limit=10)
    assert cluster.node("n02").state == "quarantined"
    done = list(ActRecord.objects.filter(proposed=False).order_by("pk").values_list("do", flat=True))
    assert done.index("quarantine") < done.index("kill")


def test_after_the_loss_of_many_nodes_automation_takes_out_no_single_one_and_the_run_gets_smaller():
    cluster = training(steps=6, size=4, spares=0, policy={**POLICY, "nodes_least": 2})
    tell(cluster, "correlated_loss", entity="rack:r1", nodes=["n03", "n04"], domain="rack:r1")
    cluster.until(Freeze.objects.exists, limit=10)
    assert cluster.node("n03").state == "healthy"
    cluster.rest(115)
    assert len(cluster.launches) == 1
    cluster.until(lambda: len(cluster.launches) == 2, limit=30)
    assert cluster.launches[-1]["nodes"] == ["n01", "n02"]
    assert (cluster.node("n03").state, cluster.node("n04").state) == ("suspect", "suspect")
    cluster.until(lambda: cluster.incident().state != "open", limit=30)
    assert steps(cluster.execution())[-1] == ("await_spares", "waiting")
    assert any("the run may go on with 2 of 4 nodes" in line for line in cluster.told())
    cluster.kill_rank(0)
    cluster.until(lambda: len(cluster.launches) == 3, limit=40)
    assert cluster.launches[-1]["nodes"] == ["n01", "n02"]


def test_a_storage_that_answers_the_probes_but_not_the_launcher_is_waited_for():
    cluster = training(steps=6, size=2, spares=0)
    cluster.fail_kinds["checkpoints.scan"] = "no answer from the file system"
    tell(cluster, "storage_stall", entity="storage", answers=False)
    cluster.kill_rank(0)
    cluster.tick(5)
    tell(cluster, "storage_stall", stage=Stage.CLEARED, entity="storage", answers=True)
    cluster.tick(15)
    assert cluster.execution().runbook == "storage-trouble"
    assert cluster.stops == []
    cluster.fail_kinds.clear()
    cluster.say("n02", "node.health", disks=[{"path": "/data", "write_probe_ms": 9000.0}])
    cluster.tick(20)
    assert "the launcher reads, but n02 cannot write in time" in " ".join(cluster.told())
    assert cluster.stops == []
    cluster.say("n01", "node.health", disks=[{"path": "/data", "write_probe_ms": 12.0}])
    cluster.until(lambda: len(cluster.launches) == 2, limit=90)
    assert any("1 checkpoints were read, and n01 wrote in time" in line for line in cluster.told())


def test_a_drill_refuses_what_the_run_cannot_afford_and_hurts_nobody():
    cluster = training(steps=6, size=2, spares=1)

    def refused():
        execution = starting.start("fault-drill", cluster.run, "ana", cluster.now)
        cluster.tick(2)
        execution.refresh_from_db()
        starting.tidy(cluster.now)
        assert (execution.state, cluster.sent("ranks.stop").count()) == ("failed", 0)
        return execution.outcome

    fleet.hold_node("n03", held=True)
    assert "0 spares free, 1 wanted" in refused()
    fleet.hold_node("n03", held=False)
    tell(cluster, "checkpoint_overdue", severity="warning")
    for _ in range(3):
        assert "is not resolved" in refused()
    with pytest.raises(Refused, match="was used 4 times on demo within 24 h"):
        starting.start("fault-drill", cluster.run, "ana", cluster.now)


@pytest.mark.parametrize(("fault", "named"), [("crash", "crash no exit"), ("hang", "hang")])
def test_a_drill_measures_what_the_run_answers_and_silences_only_the_run(fault, named):
    cluster = training(steps=6, size=2, spares=1)
    cluster.also["rank.freeze"] = lambda _, args: cluster.stop_rank(args["rank"]) or {"frozen": 1}
    starting.start("fault-drill", cluster.run, "ana", cluster.now, {"fault": fault})
    drill = cluster.execution()
    cluster.until(lambda: len(cluster.launches) == 2, limit=40)
    cluster.until(lambda: type(drill).objects.get(pk=drill.pk).state == "succeeded", limit=40)
    found = type(drill).objects.get(pk=drill.pk).context
    assert (found["named"], found["unattended"]) == (named, True)
    assert 0 <= max(found["detected_s"], found["decided_s"]) < found["resumed_s"]
    assert not ActRecord.objects.filter(do="page").exists()


def test_a_hang_is_drilled_only_where_the_nodes_own_settings_allow_it():
    cluster = training(steps=6, size=2, spares=1)
    cluster.fail_kinds["rank.freeze"] = "not allowed here: name rank.freeze under commands in agent.toml"
    starting.start("fault-drill", cluster.run, "ana", cluster.now, {"fault": "hang"})
    cluster.tick(3)
    asked = cluster.sent("rank.freeze").get()
    assert (asked.node.name, asked.args) == ("n02", {"run": "demo", "attempt": 1, "rank": 1, "length_s": 600.0})
    assert cluster.execution().state == "failed"
    assert "name rank.freeze under commands" in cluster.execution().outcome
    assert cluster.ranks[1].stopped is False
    assert not Silence.objects.filter(until__gt=cluster.now).exists()
