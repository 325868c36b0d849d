"""Two beats, or one that beats twice: whatever falls due is done once, and nobody trips over the other."""

import threading
import time
from datetime import timedelta

import pytest
from django.conf import settings as configured
from django.db import connections
from django.utils.module_loading import import_string

from controlplane.chronicle.models import Entry
from controlplane.domain.notify.text import Told
from controlplane.domain.signals import Signal
from controlplane.events import partitions
from controlplane.fleet import actions as fleet
from controlplane.fleet.models import Command
from controlplane.notify import actions as notify
from controlplane.notify import arranging, registry
from controlplane.notify import tasks as notify_tasks
from controlplane.quarantine import actions as quarantine
from controlplane.replay import tasks as replay_tasks
from controlplane.watch import tasks
from tests.flows.conftest import trained
from tests.flows.world import HEAD, Cluster
from tests.notify.conftest import OURS, Receiver

TWO = 2
TASKS = [entry["task"] for entry in configured.CELERY_BEAT_SCHEDULE.values()]


@pytest.fixture
def receiver(settings, monkeypatch):
    settings.NOTIFY_ALLOW = OURS
    monkeypatch.setitem(registry._renderers, "incident", lambda subject, _: Told(subject=subject, sentence="It burns"))
    with Receiver() as made:
        yield made


@pytest.fixture
def cluster(transactional_db, monkeypatch):
    made = trained(Cluster(size=2, spares=1).build(), steps=3)
    for module in (tasks, notify_tasks, replay_tasks):
        monkeypatch.setattr(module, "_now", lambda: made.now)
    monkeypatch.setattr(tasks.sweep_run, "apply_async", lambda args, **_: tasks.sweep_run.run(*args))
    return made


def beat_twice(cluster, seconds):
    """Let each task of the schedule be run by two workers in the same moment, some seconds later."""
    cluster.now += timedelta(seconds=seconds)
    together, failed = threading.Barrier(TWO, timeout=60), []

    def work():
        try:
            for name in TASKS:
                together.wait()
                import_string(name).run()
        except Exception as error:  # noqa: BLE001 - whatever it is, the test shows it
            failed.append(error)
            together.abort()
        finally:
            connections.close_all()

    threads = [threading.Thread(target=work) for _ in range(TWO)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert failed == []


def test_what_falls_due_is_done_once_however_many_beats_ask_for_it(cluster, receiver):
    now = cluster.now
    hook = arranging.add_transport("hook", "webhook", {"url": f"{receiver.url}/page"}, "root", now)
    step = arranging.NewStep(after_s=0, transports=[hook.pk])
    arranging.add_rule(arranging.NewRule(name="all", severity="info", runs=["other"], steps=[step]), "root", now)
    arranging.add_dead_man("world", f"{receiver.url}/alive", 3600, "root", now)
    notify.call("incident:1", run="other", severity="critical", loud=True, key="one", now=now)
    for days_ago in range(35, 0, -1):
        partitions.maintain(now - timedelta(days=days_ago), retention=timedelta(days=90))
    quarantine.quarantine("n03", "Xid 48", actor_kind="person", actor="ana", now=now)
    idle = {"node": "n03", "state": "idle"}
    at = now.timestamp()
    fleet.note_nodes([Signal(kind="scheduler.node", received=at, at_ms=int(at * 1000), node=HEAD, data=idle)])
    cluster.kill_rank(1)
    cluster.post()

    beat_twice(cluster, 1)
    beat_twice(cluster, 5)

    until = time.monotonic() + 30
    while len(receiver.got) < TWO and time.monotonic() < until:
        time.sleep(0.05)
    assert sorted(one["path"] for one in receiver.got) == ["/alive", "/page"]
    assert [command.args["nodes"] for command in Command.objects.filter(kind="nodes.drain")] == [["n03"]]
    assert (cluster.run.incidents.count(), cluster.run.executions.count()) == (1, 1)
    assert Command.objects.filter(kind="attempt.stop").count() == 1
    assert Entry.objects.filter(kind="opened", stream__name="run:demo").count() == 1
    told = list(Entry.objects.values_list("stream__name", "sentence"))
    assert sorted(told) == sorted(set(told))
    assert min(partitions.existing()) >= (now - timedelta(days=31)).date()
