"""What automation does about the queue: fill it up, leave a person's hand alone, launch again after an end."""

import pytest

from controlplane.fleet.models import Command
from controlplane.quarantine import actions as quarantine
from controlplane.runbooks.models import Execution
from controlplane.runs.models import Attempt
from tests.flows.conftest import trained
from tests.flows.world import HEAD, Cluster

pytestmark = pytest.mark.django_db


class Queued(Cluster):
    """A cluster whose launcher also answers what is asked about the queue."""

    def do(self, node, command):
        if not command.kind.startswith("job."):
            super().do(node, command)
            return
        self.say(node, "command.result", command_id=str(command.pk), state="succeeded",
                 data={"successors": ["7002", "7003"]})  # fmt: skip

    def job(self, state, **data):
        self.say(HEAD, "scheduler.job", attempt=self.attempt, about_run=True, job_id="7001", state=state, **data)

    def end(self, reason):
        for rank in self.ranks.values():
            rank.alive = False
        self.say(HEAD, "attempt.exited", attempt=self.attempt, about_run=True, reason=reason, exit_code=0)


@pytest.fixture
def cluster():
    world = trained(Queued(size=2, spares=1).build(), steps=6)
    Attempt.objects.filter(run=world.run).update(job_id="7001", scheduler="slurm")
    return world


@pytest.mark.parametrize("reason", ["timeout", "preempted"])
def test_an_attempt_that_the_scheduler_ended_is_launched_again_on_its_nodes_and_nobody_is_blamed(cluster, reason):
    cluster.end(reason)
    cluster.until(lambda: len(cluster.launches) == 2, limit=30)
    assert cluster.launches[-1]["nodes"] == ["n01", "n02"]
    assert cluster.launches[-1]["resume"]["step"] == 5
    assert [row.runbook for row in Execution.objects.all()] == ["launch-again"]
    assert cluster.incident().blamed == []
    cluster.until(lambda: cluster.incident().state == "resolved", limit=30)


def test_a_successor_in_the_queue_is_left_to_take_over(cluster):
    cluster.job("RUNNING", successors=1)
    cluster.end("timeout")
    cluster.rest(60)
    assert len(cluster.launches) == 1
    assert not Execution.objects.exists()


def test_a_thin_queue_is_filled_up_off_the_nodes_that_are_kept_out(cluster):
    quarantine.quarantine("n03", "Xid 48", actor_kind="person", actor="ana", now=cluster.now)
    cluster.job("RUNNING", successors=0)
    cluster.until(lambda: Command.objects.filter(kind="job.queue").exists(), limit=10)
    assert Command.objects.get(kind="job.queue").args == {"run": "demo", "count": 2, "exclude": ["n03"]}
    cluster.until(lambda: cluster.execution().state == "succeeded", limit=10)
    assert any("Behind the job at work wait: 7002, 7003." in line for line in cluster.told())
    cluster.job("RUNNING", successors=2)
    cluster.until(lambda: cluster.incident().state == "resolved", limit=10)
    assert cluster.stops == []


def test_a_run_that_asks_first_is_asked_before_its_queue_is_touched(cluster):
    cluster.run.mode = "ask"
    cluster.run.save(update_fields=["mode"])
    cluster.job("RUNNING", successors=0)
    cluster.tick(5)
    assert cluster.execution().state == "proposed"
    assert not Command.objects.filter(kind="job.queue").exists()
