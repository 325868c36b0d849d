"""What the fleet's sweep hands on: to the run whose loss it is, to the ledger, to the chronicle."""

from datetime import timedelta

import pytest

from controlplane.fleet.models import Node
from controlplane.incidents.models import ActRecord, Incident
from controlplane.quarantine import actions as quarantine
from controlplane.watch import fleet as fleet_watch
from controlplane.watch import pipeline
from tests.flows.conftest import training
from tests.flows.world import HEAD

pytestmark = pytest.mark.django_db
HARDWARE = {"machine_id": "m1", "board_serial": "b1", "gpus": [{"uuid": "GPU-1"}]}


@pytest.fixture(autouse=True)
def _fresh_memory():
    pipeline.memory.forget()
    fleet_watch.memory.forget()


@pytest.fixture
def cluster():
    return training(steps=3, size=2, spares=1)


def test_a_kept_out_node_in_an_allocation_becomes_a_critical_incident_of_the_run(cluster):
    quarantine.quarantine("n03", "Xid 64", actor_kind="person", actor="ana", now=cluster.now)
    cluster.tick(2)
    cluster.start(HEAD, {"attempt": 2, "nodes": ["n01", "n03"], "resume": {"step": 0}})
    cluster.until(lambda: Incident.objects.filter(klass="scheduler").exists(), limit=40)
    incident = Incident.objects.get(klass="scheduler")
    assert (incident.run, incident.severity) == (cluster.run, "critical")
    assert [blame["entity"] for blame in incident.blamed] == ["node:n03"]
    assert any("n03 is quarantined" in line and "attempt 2" in line for line in cluster.told())
    assert ("page", None) in ActRecord.objects.values_list("do", "node")


def test_a_machine_that_is_kept_out_is_refused_when_it_comes_back_under_another_name(cluster):
    Node.objects.filter(name="n03").update(
        hardware=HARDWARE, state="quarantined", last_seen_at=cluster.now - timedelta(minutes=9), state_reason="Xid 48"
    )
    Node.objects.create(name="n16", enrolled_at=cluster.now, state_since=cluster.now)
    cluster.say("n16", "node.hello", hardware=HARDWARE)
    cluster.post()
    fleet_watch.sweep_fleet("test", cluster.now)
    assert cluster.node("n16").state == "quarantined"
    assert [(act.do, act.node) for act in ActRecord.objects.all()] == [("refuse", "n16")]
    (told,) = [line for line in cluster.told("fleet") if "n16" in line]
    assert "the same machine as node n03, which is quarantined: Xid 48" in told


def test_who_is_drained_by_others_is_told_once_and_left_alone(cluster):
    for _ in range(2):
        for name in ("n01", "n02"):
            cluster.say(HEAD, "scheduler.node", node=name, state="drained", reason="new firmware", owner="site")
        cluster.tick()
    told = [line for line in cluster.told("fleet") if "drained" in line]
    assert told == [
        "finding: n01 and n02 are drained at the scheduler by site (new firmware); Middlewatch leaves that alone."
    ]
    assert cluster.node("n01").state == "healthy"
