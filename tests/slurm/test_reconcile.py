"""What the reconciliation asks of a real Slurm, and what it hears of it."""

from datetime import UTC, datetime

import pytest

from controlplane.domain.signals import Signal
from controlplane.fleet import actions as fleet
from controlplane.fleet.models import Command, Node
from controlplane.quarantine import actions as quarantine
from controlplane.quarantine.reconcile import reconcile
from tests.agent.launcher.stage import wait_for


def test_a_node_that_slurm_drained_over_a_step_comes_back_and_one_that_a_person_drained_does_not(lab, site):
    for node, reason in (("n1", "Kill task failed"), ("n2", "bad fan")):
        lab.tool("scontrol", "update", f"nodename={node}", "state=drain", f"reason={reason}")
    assert site.launcher.resume(["n1", "n2"]) == {"resumed": ["n1"], "left": {"n2": "drained by root: bad fan"}}
    wait_for(lambda: lab.states()["n1"] == "idle")
    assert lab.states()["n2"] == "drain"


@pytest.mark.django_db
def test_slurm_follows_the_ledger_and_a_persons_drain_stays(lab, site):
    enrol("head", *lab.nodes)
    lab.tool("scontrol", "update", "nodename=n2", "state=drain", "reason=bad fan")
    quarantine.quarantine("n1", "Xid 48", actor_kind="person", actor="ana", now=now())
    assert follow(site) == [("drain", "n1")]
    assert "Reason=middlewatch: quarantined: Xid 48" in lab.tool("scontrol", "-o", "show", "node", "n1")
    assert follow(site) == []
    quarantine.release("n1", by="ana", now=now())
    assert follow(site) == [("resume", "n1")]
    wait_for(lambda: lab.states()["n1"] == "idle")
    assert follow(site) == []
    assert lab.states()["n2"] == "drain"


def enrol(*names):
    for name in names:
        Node.objects.create(name=name, head=name == "head", state="healthy", enrolled_at=now(), state_since=now())


def follow(site):
    """Hear the launcher, reconcile, and let the launcher do what it is asked."""
    site.launcher._site.world.hurry()
    site.service.tell()
    at = now().timestamp()
    fleet.note_nodes(
        Signal(kind="scheduler.node", received=at, at_ms=number, node="head", data=event["data"])
        for number, event in enumerate(site.context.of("scheduler.node"))
    )
    asked = reconcile(now())
    for command in Command.objects.filter(state="pending"):
        if command.kind == "nodes.drain":
            site.launcher.drain(command.args["nodes"], command.args["reason"])
        else:
            site.launcher.resume(command.args["nodes"])
        fleet.record_result(command.pk, {"state": "succeeded"}, now())
    return [(verdict.ask, verdict.node) for verdict in asked]


def now():
    return datetime.now(UTC)
