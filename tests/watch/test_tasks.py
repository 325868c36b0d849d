import threading
from datetime import UTC, datetime
from functools import partial
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.db import DataError, OperationalError

from controlplane.fleet.models import Node
from controlplane.live import tasks as live_tasks
from controlplane.notify import tasks as notify_tasks
from controlplane.runbooks.models import Execution
from controlplane.runs.leases import Look
from controlplane.runs.models import Run
from controlplane.settings.schedule import BEAT_SCHEDULE, SWEEP_S
from controlplane.watch import alone, pipeline, tasks
from tests.flows.world import HEAD, Cluster

pytestmark = pytest.mark.django_db


@pytest.fixture
def cluster():
    return Cluster(size=2, spares=0).build()


def run(*words):
    out = StringIO()
    call_command("run", *words, stdout=out)
    return out.getvalue()


@pytest.mark.parametrize("by", ["pk", "name"])
def test_a_run_is_swept_by_its_id_or_its_name(cluster, by, monkeypatch):
    swept = []
    monkeypatch.setattr(pipeline, "sweep_run", lambda run_id, *_: swept.append(run_id))
    tasks.sweep_run(getattr(cluster.run, by))
    tasks.sweep_run("nobody")
    tasks.sweep_run(10**9)
    assert swept == [cluster.run.pk]


def test_a_look_that_was_knocked_at_is_repeated_with_a_fresh_clock_and_not_for_ever(cluster, monkeypatch):
    clocks = []
    monkeypatch.setattr(pipeline, "sweep_run", lambda _run, _owner, now: clocks.append(now) or Look.AGAIN)
    tasks.sweep_run(cluster.run.pk)
    assert len(clocks) == tasks.MAX_LOOKS
    assert len(set(clocks)) > 1


def test_every_run_that_is_not_over_is_swept(cluster, monkeypatch):
    sent = []
    monkeypatch.setattr(tasks.sweep_run, "apply_async", lambda args, expires: sent.append((args, expires)))
    Run.objects.create(name="done", launcher=HEAD, nodes_wanted=1, state="completed", created_at=cluster.now)
    tasks.sweep_runs()
    assert sent == [((cluster.run.pk,), tasks.EXPIRES_S)]
    frequent = [each for each in BEAT_SCHEDULE.values() if each["schedule"].run_every.total_seconds() <= SWEEP_S]
    assert all(each["options"]["expires"] < tasks.EXPIRES_S for each in frequent)


def test_what_takes_a_moment_is_done_in_one_message_and_a_part_that_fails_keeps_no_other_from_it(db, monkeypatch):
    begun = []

    def part(name):
        begun.append(name)
        if name in ("sweep_runs", "flush"):
            raise DataError("value too long")

    parts = [(tasks, "sweep_runs"), (live_tasks, "flush"), (tasks, "give_signs_of_life"), (notify_tasks, "tend")]
    for module, name in parts:
        monkeypatch.setattr(module, name, partial(part, name))
    tasks.each_second()
    assert begun == [name for _, name in parts]


def test_the_periodic_tasks_run_on_an_empty_fleet(db):
    tasks.sweep_fleet()
    tasks.advance_due()
    tasks.housekeeping()


def test_a_part_of_housekeeping_that_fails_keeps_no_other_from_it(db, monkeypatch):
    pruned = []
    monkeypatch.setattr(tasks.partitions, "maintain", raising(DataError("no room for a partition")))
    monkeypatch.setattr(tasks.pruning, "prune", lambda *_: pruned.append("messages"))
    tasks.housekeeping()
    assert pruned == ["messages"]


def raising(error):
    def call(*_):
        raise error

    return call


def test_what_cannot_be_carried_on_keeps_nothing_else_from_it(cluster, monkeypatch):
    asked = []

    def poisoned(number, *_):
        asked.append(number)
        if number == 1:
            raise DataError("value too long")
        return Look.DONE

    monkeypatch.setattr(tasks, "due", lambda _now: Execution.objects.none())
    monkeypatch.setattr(tasks.runbooks, "pursue", poisoned)
    monkeypatch.setattr(tasks.starting, "tidy", asked.append)
    assert alone.each(tasks.advance, [1, 2]) == [None]
    tasks.advance_due()
    assert asked[:2] == [1, 2]
    assert len(asked) == 3


def test_a_database_that_is_away_is_no_matter_of_one_thing():
    def away(_item):
        raise OperationalError("away")

    with pytest.raises(OperationalError):
        alone.each(away, [1, 2])


def test_two_threads_have_two_names():
    names = {tasks.owner()}
    other = threading.Thread(target=lambda: names.add(tasks.owner()))
    other.start()
    other.join()
    assert len(names) == 2


def test_a_run_is_made_launched_held_and_shown_from_a_terminal(cluster):
    made = run("create", "night", "--launcher", HEAD, "--nodes", "2", "--policy", "hang_k=4")
    assert "run launch night" in made
    assert Run.objects.get(name="night").policy == {"hang_k": 4.0}
    Node.objects.update(last_seen_at=datetime.now(UTC))  # the command reads the real clock
    assert "n01, n02" in run("launch", "night")
    assert "held by" in run("hold", "night")
    assert "held by" not in run("resume", "night")
    assert "attempt 1: starting on n01, n02" in run("show", "night")
    assert "stopped" in run("stop", "night")


@pytest.mark.parametrize(
    "words",
    [
        ("show", "nobody"),
        ("create", "demo", "--launcher", HEAD, "--nodes", "2"),
        ("create", "x", "--launcher", HEAD, "--nodes", "0"),
        ("create", "x", "--launcher", HEAD, "--nodes", "2", "--policy", "hang_k"),
        ("launch", "demo", "--on", "n01"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_sentence(cluster, words):
    with pytest.raises(CommandError) as refusal:
        run(*words)
    assert "\n" not in str(refusal.value)
