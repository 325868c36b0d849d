"""A successor job may begin before a restart is asked for, and its word may come before or after that."""

import pytest

from controlplane.runbooks.models import ExecutionState
from tests.flows.conftest import trained
from tests.flows.world import HEAD, Cluster
from tests.runbooks.test_answers import tell

pytestmark = pytest.mark.django_db


def stopping(cluster):
    """Wait until the first attempt is being stopped; the launcher does not answer yet."""
    cluster.until(lambda: cluster.sent("attempt.stop").exists())
    return cluster


def begins_by_itself(cluster, nodes, until):
    cluster.start(HEAD, {"attempt": 2, "nodes": nodes, "resume": {"step": 5}})
    cluster.hear()
    assert cluster.newest().unasked
    cluster.mute_kinds.clear()
    cluster.until(until, limit=20)


def test_a_successor_that_is_seen_before_the_launch_takes_the_place_of_the_attempt():
    cluster = trained(Cluster(mute_kinds={"attempt.stop"}).build())
    cluster.kill_rank(2)
    there = ["n01", "n02", "n03", "n05"]
    begins_by_itself(stopping(cluster), there, lambda: cluster.execution().finished_at is not None)
    assert (cluster.execution().state, cluster.run.executions.count()) == (ExecutionState.SUCCEEDED, 1)
    assert "launch: Attempt 2 had begun by itself on n01, n02, n03 and n05 from step 5, and goes on." in cluster.told()
    assert (cluster.newest().number, cluster.newest().nodes) == (2, there)
    assert not cluster.sent("attempt.start").filter(args__attempt=2).exists()
    assert [cluster.node(name).state for name in ("n04", "n05")] == ["spare", "healthy"]


def test_a_successor_that_is_seen_before_the_launch_on_a_node_that_is_left_out_is_stopped_before_the_next():
    cluster = trained(Cluster(size=2, spares=1, mute_kinds={"attempt.stop"}).build(), steps=6)
    tell(cluster, "gpu_fault", weight=6.0, action="quarantine_now")
    begins_by_itself(stopping(cluster), ["n01", "n02"], lambda: cluster.launches[-1]["attempt"] == 3)
    assert [item["attempt"] for item in cluster.stops] == [1, 2]
    assert (cluster.launches[-1]["attempt"], cluster.launches[-1]["nodes"]) == (3, ["n01", "n03"])
    assert any("attempt 2 began by itself and runs on n02" in line for line in cluster.told())
