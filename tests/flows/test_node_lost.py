from controlplane.quarantine.models import LedgerEntry
from tests.flows.conftest import training


def test_a_lost_node_is_quarantined_and_a_spare_takes_its_place(cluster):
    cluster.lose_node("n03")
    cluster.until(lambda: cluster.incident() and cluster.incident().state == "resolved")
    incident = cluster.incident()
    assert incident.klass == "node_lost"
    assert cluster.launches[-1]["nodes"] == ["n01", "n02", "n05", "n04"]
    assert [cluster.node(name).state for name in ("n03", "n05")] == ["quarantined", "healthy"]
    entry = LedgerEntry.objects.get(to_state="quarantined")
    assert (entry.incident_id, entry.strike, entry.actor_kind) == (incident.pk, True, "runbook")
    assert entry.evidence
    assert len(cluster.launches) == 2


def test_silence_alone_is_waited_for_and_nothing_is_launched_on_a_silent_node(cluster):
    cluster.lose_node("n03")
    cluster.until(lambda: cluster.stops)
    cluster.tick(5)
    assert len(cluster.launches) == 1
    assert cluster.node("n03").state == "healthy"


def test_without_a_spare_the_runbook_waits_for_a_node_and_goes_on_when_one_comes(db):
    cluster = training(spares=0)
    cluster.lose_node("n03")
    cluster.until(lambda: cluster.node("n03").state == "quarantined")
    cluster.rest(20)
    assert len(cluster.launches) == 1
    assert cluster.execution().state == "waiting"
    assert any("no spare is free" in line for line in cluster.told(f"incident:{cluster.incident().pk}"))
    cluster.enrol("n09")
    cluster.until(lambda: len(cluster.launches) == 2)
    assert cluster.launches[-1]["nodes"] == ["n01", "n02", "n09", "n04"]


def test_a_node_that_an_operator_holds_is_left_out_but_its_state_is_not_touched(cluster):
    held = cluster.node("n03")
    held.held = True
    held.save()
    cluster.lose_node("n03")
    cluster.until(lambda: len(cluster.launches) == 2)
    assert cluster.node("n03").state == "healthy"
    assert "n03" not in cluster.launches[-1]["nodes"]


def test_an_agent_that_is_silent_while_the_run_advances_is_left_alone(cluster):
    cluster.alive.discard("n03")
    cluster.rest(60)
    assert len(cluster.launches) == 1
    assert cluster.stops == []
