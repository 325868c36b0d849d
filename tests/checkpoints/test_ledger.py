from datetime import UTC, datetime, timedelta

import pytest

from controlplane.checkpoints import actions, queries
from controlplane.checkpoints.models import Checkpoint
from controlplane.domain.signals import Signal
from controlplane.runs import actions as runs
from controlplane.runs.book import Book

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 11, 29, 3, 0, tzinfo=UTC)


@pytest.fixture
def run():
    return runs.create_run("demo", launcher="head", nodes_wanted=2, now=NOW)


def report(run, step, state, *, at=0.0, **data):
    facts = {"step": step, "state": state, "tier": "persistent", "path": f"/d/step-{step}"} | data
    signal = Signal(
        kind="checkpoint", received=NOW.timestamp() + at, at_ms=0, node="n1", run="demo", attempt=1, data=facts
    )
    return actions.apply(run, [signal], Book(NOW))


def found(step, state, **more):
    return {"step": step, "path": f"/d/step-{step}", "state": state, "files": 2, "expected_files": 2} | more


def test_a_checkpoint_grows_from_saving_to_complete(run):
    assert report(run, 10, "saving") == []
    assert [row.step for row in report(run, 10, "complete", at=3, bytes=99)] == [10]
    row = Checkpoint.objects.get()
    assert (row.state, row.bytes, row.began_at) == ("complete", 99, NOW)
    assert row.completed_at == NOW + timedelta(seconds=3)


@pytest.mark.parametrize("late", ["saving", "written", "complete"])
def test_a_late_report_takes_nothing_back(run, late):
    report(run, 10, "verified")
    report(run, 10, late)
    assert Checkpoint.objects.get().state == "verified"


def test_a_torn_checkpoint_may_be_saved_again(run):
    report(run, 10, "torn")
    report(run, 10, "complete")
    assert Checkpoint.objects.get().state == "torn"
    report(run, 10, "saving")
    report(run, 10, "complete")
    assert Checkpoint.objects.get().state == "complete"


@pytest.mark.parametrize("wrong", [{"step": -1}, {"step": "x"}, {"state": "fine"}, {"step": True}])
def test_a_report_that_makes_no_sense_writes_nothing(run, wrong):
    report(run, wrong.get("step", 5), wrong.get("state", "complete"))
    assert not Checkpoint.objects.exists()


def test_numbers_out_of_range_are_not_taken(run):
    report(run, 10, "complete", files=2**40, duration_ms=-5.0, bytes="many")
    row = Checkpoint.objects.get()
    assert (row.files, row.duration_ms, row.bytes) == (None, None, None)


def test_the_scan_outranks_the_reports(run):
    report(run, 10, "complete")
    report(run, 20, "complete")
    actions.record_scan(run, [found(20, "torn", why="a file is short"), found(10, "complete")], NOW)
    assert list(Checkpoint.objects.values_list("step", "state")) == [(20, "torn"), (10, "complete")]
    choice = queries.restore_point(run)
    assert (choice.step, choice.skipped) == (10, ((20, "a file is short"),))


def test_what_the_scan_does_not_find_in_its_range_is_gone(run):
    for step in (10, 20, 30):
        report(run, step, "complete")
    actions.record_scan(run, [found(30, "complete"), found(20, "complete")], NOW)
    assert dict(Checkpoint.objects.values_list("step", "state"))[10] == "complete"
    actions.record_scan(run, [found(20, "complete")], NOW)
    assert dict(Checkpoint.objects.values_list("step", "state"))[30] == "deleted"
    assert queries.restore_point(run).step == 20


def test_a_scan_full_of_nonsense_is_harmless(run):
    rows = actions.record_scan(run, [{"step": None}, {}, {"step": 5, "state": "saving"}, found(4, "complete")], NOW)
    assert [row.step for row in rows] == [4]


def test_without_a_checkpoint_the_run_begins_from_the_start(run):
    assert queries.restore_point(run).step == 0
    assert not queries.has_saved(run)
    assert queries.exposed(run, NOW) is None


def test_exposure_counts_from_the_capture_of_the_newest_complete_checkpoint(run):
    runs.open_attempt(run, ["n1", "n2"], runs.Resume(), NOW)
    report(run, 10, "saving")
    report(run, 10, "complete", at=5)
    lost = queries.exposed(run, NOW + timedelta(seconds=36))
    assert (lost.seconds, round(lost.gpu_hours, 4)) == (36.0, 0.02)
