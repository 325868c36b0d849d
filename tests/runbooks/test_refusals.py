"""Whose word keeps an incident from being answered again on the same attempt, and whose does not."""

import pytest

from controlplane.runbooks import actions, approvals
from controlplane.runbooks.models import Execution
from tests.flows.conftest import training

pytestmark = pytest.mark.django_db


@pytest.fixture
def cluster():
    cluster = training(steps=6, size=2, spares=1, mode="ask")
    cluster.kill_rank(1)
    cluster.until(lambda: cluster.execution() is not None and cluster.execution().state == "proposed")
    return cluster


def ended_by_itself(cluster, *, behind_a_step):
    approvals.withdraw(Execution.objects.filter(run=cluster.run), "node n02 was moved a moment ago", cluster.now)
    if behind_a_step:
        cluster.execution().steps.create(index=0, name="confirm", state="done", started_at=cluster.now)


def test_what_we_ended_ourselves_is_proposed_again(cluster):
    ended_by_itself(cluster, behind_a_step=False)
    cluster.tick(2)
    assert list(Execution.objects.order_by("pk").values_list("state", flat=True)) == ["stopped", "proposed"]


def test_what_a_person_stopped_is_left_to_people(cluster):
    actions.stop(cluster.execution(), "ana", cluster.now)
    cluster.tick(2)
    assert list(Execution.objects.values_list("state", "stopped_by")) == [("stopped", "ana")]


def test_an_answer_that_ends_itself_behind_a_step_twice_is_not_tried_a_third_time(cluster):
    for _ in range(2):
        ended_by_itself(cluster, behind_a_step=True)
        cluster.tick(2)
    assert "2 tries to bring attempt 1 back have failed" in cluster.incident().decision["why"]
    assert cluster.execution().state == "proposed"
