"""What is done about each kind of finding, seen in the acts that are written down."""

import pytest

from controlplane.domain.findings import Evidence, Finding, Stage
from controlplane.fleet import actions as fleet
from controlplane.incidents import actions as incidents
from controlplane.incidents.models import ActRecord
from controlplane.runbooks import actions, fleet_answers
from controlplane.runs.book import Book
from controlplane.runs.times import seconds
from tests.flows.conftest import training

pytestmark = pytest.mark.django_db


@pytest.fixture
def cluster():
    return training(steps=6, size=2, spares=1)


def tell(cluster, klass, *, stage=Stage.CONFIRMED, severity="critical", weight=0.0, node="n02", entity="run", **facts):
    """Have the detectors say something about the newest attempt."""
    at = seconds(cluster.now)
    line = Evidence(at=at, entity=f"node:{node}", weight=weight, text=f"{node} shows it", kind=klass)
    finding = Finding(
        key=f"demo/{klass}/{entity}", detector="D-99", klass=klass, stage=stage, entity=entity, began=at, at=at,
        run="demo", attempt=cluster.newest().number, severity=severity, sentence=f"there is {klass}",
        evidence=(line,) if weight else (), facts=facts,
    )  # fmt: skip
    incidents.record(cluster.run, [finding], cluster.now)


def acts(proposed=None):
    rows = ActRecord.objects.all() if proposed is None else ActRecord.objects.filter(proposed=proposed)
    return [(row.do, row.node) if row.node else row.do for row in rows.order_by("at", "pk")]


def test_a_slow_node_is_proposed_at_once_and_drained_behind_the_next_complete_checkpoint(cluster):
    tell(cluster, "fail_slow", severity="warning", weight=4.5)
    cluster.hear()
    assert acts() == [("drain", "n02")]
    assert cluster.execution().state == "waiting"
    assert cluster.stops == []
    cluster.until(lambda: len(cluster.launches) == 2, limit=30)
    assert acts(proposed=False) == [("drain", "n02"), "kill", ("replace", "n02"), "restart"]
    assert cluster.launches[-1]["nodes"] == ["n01", "n03"]
    assert cluster.launches[-1]["resume"]["step"] == 10
    assert cluster.node("n02").state == "draining"


def test_a_crash_does_not_wait_behind_a_node_that_waits_for_a_checkpoint(cluster):
    cluster.save_every = 1000
    tell(cluster, "fail_slow", severity="warning", weight=4.5)
    cluster.hear()
    cluster.kill_rank(0)
    cluster.until(lambda: len(cluster.launches) == 2, limit=30)
    assert cluster.launches[-1]["nodes"] == ["n01", "n03"]
    assert list(cluster.run.executions.order_by("pk").values_list("runbook", "state")) == [
        ("drain-at-save", "stopped"), ("restart-after-crash", "waiting"),
    ]  # fmt: skip


def test_trouble_with_the_loss_goes_back_well_before_its_onset(cluster):
    cluster.until(lambda: cluster.step >= 11, limit=10)
    tell(cluster, "loss_anomaly", onset_step=107, kind="nan", transient=True)
    cluster.until(lambda: len(cluster.launches) == 2, limit=30)
    assert cluster.launches[-1]["resume"]["step"] == 5
    assert ActRecord.objects.get(do="rollback").args["step"] == 5
    assert "restart" not in acts()


def test_a_rollback_that_cannot_skip_batches_asks_before_anything_is_stopped(cluster):
    tell(cluster, "loss_anomaly", onset_step=107, kind="spike")
    cluster.tick(3)
    assert cluster.execution().state == "proposed"
    assert acts() == ["page", "rollback"]
    assert cluster.stops == []
    actions.approve(cluster.execution(), "ana", cluster.now)
    cluster.until(lambda: len(cluster.launches) == 2, limit=30)


def test_a_suspicion_about_the_loss_does_nothing_at_all(cluster):
    tell(cluster, "loss_anomaly", stage=Stage.SUSPECT, severity="warning")
    cluster.tick(5)
    assert acts() == []
    assert cluster.execution() is None


def test_a_failed_gpu_is_quarantined_first_and_a_held_one_is_left_to_its_operator(cluster):
    fleet.hold_node("n02", held=True)
    tell(cluster, "gpu_fault", weight=6.0, action="quarantine_now")
    cluster.until(lambda: len(cluster.launches) == 2, limit=30)
    assert acts(proposed=True) == [("quarantine", "n02")]
    assert acts(proposed=False) == ["page", "collect", "kill", ("replace", "n02"), "restart"]
    assert cluster.node("n02").state == "healthy"
    assert any("n02 is held by an operator" in line for line in cluster.told())


def test_restarts_wait_for_the_storage_and_then_go_on_by_themselves(cluster):
    tell(cluster, "storage_stall", entity="storage", answers=False)
    cluster.kill_rank(0)
    cluster.tick(15)
    assert cluster.stops == []
    assert sorted(acts()) == ["hold", "page"]
    tell(cluster, "storage_stall", stage=Stage.CLEARED, entity="storage", answers=True)
    cluster.until(lambda: len(cluster.launches) == 2, limit=30)


def test_a_distrusted_checkpoint_is_passed_over_and_stays_on_the_disk(cluster):
    cluster.until(lambda: cluster.step >= 11, limit=10)
    cluster.kill_rank(0)
    tell(cluster, "checkpoint_poison", entity="checkpoint:10", step=10)
    cluster.until(lambda: len(cluster.launches) == 2, limit=30)
    assert cluster.launches[-1]["resume"]["step"] == 5
    assert cluster.run.checkpoints.get(step=10).state == "complete"


def test_a_wrong_resume_is_stopped_and_the_next_launch_is_a_persons(cluster):
    tell(cluster, "resume_mismatch")
    cluster.until(lambda: cluster.stops, limit=10)
    cluster.tick(10)
    assert len(cluster.launches) == 1
    assert acts() == ["kill", "restart", "page"]
    assert cluster.execution().held_by == "person"


def test_a_job_that_ends_by_itself_is_not_killed(cluster):
    tell(cluster, "crash", job_running=True)
    cluster.tick(3)
    assert cluster.stops == []
    cluster.ranks.clear()
    cluster.say("head", "attempt.exited", attempt=1, about_run=True, reason="failed", exit_code=1)
    cluster.until(lambda: len(cluster.launches) == 2, limit=30)
    assert acts() == ["collect", "restart"]


def test_missing_spares_are_called_out_once(db):
    cluster = training(steps=6, size=2, spares=0)
    tell(cluster, "gpu_fault", weight=6.0)
    cluster.tick(20)
    assert [row.why for row in ActRecord.objects.filter(do="page")] == [
        "spares are short: 1 more node is needed and no spare is free"
    ]
    assert len(cluster.launches) == 1


def test_a_failed_gpu_of_an_idle_node_is_kept_out_by_the_fleet(cluster):
    at = seconds(cluster.now)
    line = Evidence(at=at, entity="node:n03", weight=6.0, text="GPU 0 of n03 fell off the bus", kind="xid 79")
    finding = Finding(
        key="fleet/gpu", detector="D-06", klass="gpu_fault", stage=Stage.CONFIRMED, entity="gpu:x", began=at, at=at,
        sentence="GPU 0 of n03 fell off the bus", evidence=(line,), facts={"action": "quarantine_now"},
    )  # fmt: skip
    book = Book(cluster.now)
    fleet_answers.answer(incidents.record(None, [finding], cluster.now), cluster.now, book=book)
    book.write()
    assert cluster.node("n03").state == "quarantined"
    assert ("quarantine", "n03") in acts(proposed=False)


def test_an_open_incident_that_nothing_changes_costs_few_queries(cluster, django_assert_max_num_queries):
    tell(cluster, "checkpoint_overdue", severity="warning")
    incident = cluster.incident()
    actions.consider(incident, cluster.now)
    with django_assert_max_num_queries(20):
        actions.consider(incident, cluster.now)
    assert acts() == ["notify"]
