"""A worker may die, or stand still, before or after any commit: each effect happens once all the same."""

import os
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager
from datetime import timedelta

import pytest
from django.db import connection, connections, transaction

from controlplane.chronicle.models import Entry
from controlplane.fleet.models import Command
from controlplane.quarantine.models import LedgerEntry
from controlplane.runbooks import actions as runbooks
from controlplane.runbooks import consider, engine
from controlplane.runbooks.models import BucketSpend, Execution, StepRun
from controlplane.watch import fleet as fleet_watch
from controlplane.watch import pipeline
from tests.flows.conftest import trained
from tests.flows.world import HEAD, Cluster

STEPS = [
    "collect", "confirm", "stop", "stop_ranks", "fence_nodes", "choose_checkpoint", "choose_nodes", "launch",
    "await_progress", "close",
]  # fmt: skip


class Killed(BaseException):
    """The worker is gone: nothing catches this."""


class Reaper:
    """Kills the worker once in each step, at the engine's first commit that holds a try of it."""

    def __init__(self, *, before):
        self.before, self.killed_in = before, []

    @contextmanager
    def atomic(self, *args, **kwargs):
        with transaction.atomic(*args, **kwargs):
            yield
            if self.before:
                self.strike()
        if not self.before:
            self.strike()

    def strike(self):
        tried = StepRun.objects.exclude(name__in=self.killed_in).order_by("pk").values_list("name", flat=True)
        if tried:
            self.killed_in.extend(tried)
            raise Killed


class Module:
    def __init__(self, atomic):
        self.atomic = atomic


def effects(cluster):
    """Everything that the runbook did, as the world and the books show it."""
    return {
        "launches": [item["attempt"] for item in cluster.launches],
        "stops": len({item["attempt"] for item in cluster.stops}),
        "commands": sorted(Command.objects.exclude(execution_id=None).values_list("kind", flat=True)),
        "attempts": list(cluster.run.attempts.values_list("number", flat=True)),
        "quarantined": LedgerEntry.objects.filter(to_state="quarantined").count(),
        "spends": BucketSpend.objects.count(),
        "executions": cluster.run.executions.count(),
        "tries": sorted(StepRun.objects.values_list("name", "try_number")),
        "told": len(cluster.told()) - len(set(cluster.told())),
    }


EXPECTED = {
    "launches": [1, 2], "stops": 1,
    "commands": ["attempt.start", "attempt.stop", "checkpoints.scan", *["collect"] * 4],
    "attempts": [1, 2], "quarantined": 1, "spends": 1, "executions": 1,
    "tries": sorted((name, 1) for name in STEPS),
}  # fmt: skip


def survive(cluster, limit=90):
    """Go on as a row of new workers would: the dead one's lease runs out, nothing is in memory."""
    for _ in range(limit):
        if cluster.incident() and cluster.execution() and cluster.execution().finished_at:
            return
        try:
            cluster.tick()
        except Killed:
            pipeline.memory.forget()
            fleet_watch.memory.forget()
            cluster.owner = f"{cluster.owner}+"


@pytest.mark.django_db
@pytest.mark.parametrize("before", [True, False], ids=["before the commit", "after the commit"])
def test_a_worker_killed_in_every_step_changes_no_effect(before, monkeypatch):
    cluster = trained(Cluster(policy=Cluster().policy | {"silence_s": 6.0, "silence_hold_s": 3.0}).build())
    reaper = Reaper(before=before)
    monkeypatch.setattr(engine, "transaction", Module(reaper.atomic))
    cluster.lose_node("n03")
    survive(cluster)
    assert reaper.killed_in == STEPS
    found = effects(cluster)
    found.pop("told")
    asked = found["commands"].count("collect")
    found["commands"] = [kind for kind in found["commands"] if kind != "collect"] + ["collect"] * 4
    assert found == EXPECTED
    assert asked in {3, 4}  # the lost node is asked only as long as it is not known to be silent
    assert cluster.incident().state in {"mitigated", "resolved"}
    assert cluster.launches[-1]["nodes"] == ["n01", "n02", "n05", "n04"]


@pytest.mark.django_db
@pytest.mark.parametrize("module", [pipeline, fleet_watch, consider], ids=["run sweep", "fleet sweep", "decision"])
@pytest.mark.parametrize("before", [True, False], ids=["before the commit", "after the commit"])
def test_a_worker_killed_in_a_sweep_loses_and_doubles_nothing(module, before, monkeypatch):
    cluster = trained(Cluster().build())
    cluster.kill_rank(2)
    kills = []

    @contextmanager
    def atomic(*args, **kwargs):
        with transaction.atomic(*args, **kwargs):
            yield
            if before and len(kills) < 3:
                kills.append(1)
                raise Killed
        if not before and len(kills) < 3:
            kills.append(1)
            raise Killed

    monkeypatch.setattr(module, "transaction", Module(atomic))
    survive(cluster)
    assert kills
    found = effects(cluster)
    assert (found["launches"], found["executions"], found["spends"]) == ([1, 2], 1, 1)
    assert cluster.run.incidents.count() == 1
    assert Entry.objects.filter(kind="opened", stream__name="run:demo").count() == 1


KILLED_FOR_REAL = """
import os, signal, sys
from contextlib import contextmanager
from datetime import datetime
import django
django.setup()
from django.db import transaction
from controlplane.runbooks import actions, engine

left = [int(sys.argv[1])]

class Module:
    @staticmethod
    @contextmanager
    def atomic():
        with transaction.atomic():
            yield
            left[0] -= 1
            if not left[0]:
                os.kill(os.getpid(), signal.SIGKILL)

engine.transaction = Module
actions.pursue(int(sys.argv[2]), f"doomed:{os.getpid()}", datetime.fromisoformat(sys.argv[3]))
"""


def answered():
    """Give a cluster whose launcher has told the end of the broken attempt; nobody has acted on that yet."""
    cluster = trained(Cluster().build())
    cluster.alive.discard(HEAD)
    cluster.kill_rank(2)
    cluster.until(lambda: cluster.sent("attempt.stop").exists())
    cluster.alive.add(HEAD)
    cluster.answer()
    cluster.post()
    fleet_watch.sweep_fleet("hearing", cluster.now)
    return cluster


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("commit", [1, 3])
def test_a_process_killed_with_signal_9_in_the_middle_of_a_step_is_replaced(commit):
    cluster = answered()
    execution = cluster.execution()
    victim = subprocess.run(
        [sys.executable, "-c", KILLED_FOR_REAL, str(commit), str(execution.pk), cluster.now.isoformat()],
        env=os.environ | {"DATABASE_URL": _address(), "DJANGO_SETTINGS_MODULE": "controlplane.settings.test"},
        check=False, capture_output=True, timeout=60,
    )  # fmt: skip
    assert victim.returncode == -9, victim.stderr
    assert Execution.objects.get().owner.startswith("doomed:")
    cluster.until(lambda: cluster.incident().state != "open", limit=60)
    found = effects(cluster)
    assert found["launches"] == [1, 2]
    assert found["commands"] == EXPECTED["commands"]
    assert found["spends"] == 1


FROZEN_FOR_REAL = """
import os, signal, sys
from contextlib import contextmanager
from datetime import datetime
import django
django.setup()
from django.db import connection, transaction
from controlplane.runbooks import engine
from controlplane.watch import tasks

class Module:
    @staticmethod
    @contextmanager
    def atomic():
        with transaction.atomic():
            yield
            with connection.cursor() as cursor:
                cursor.execute("SHOW idle_in_transaction_session_timeout")
                print(cursor.fetchone()[0], flush=True)
                cursor.execute("SET idle_in_transaction_session_timeout = 300")
            os.kill(os.getpid(), signal.SIGSTOP)

engine.transaction = Module
tasks._now = lambda: datetime.fromisoformat(sys.argv[2])
tasks.advance.run(int(sys.argv[1]))
"""


@pytest.mark.django_db(transaction=True)
def test_a_process_frozen_inside_a_transaction_keeps_no_row_and_does_nothing_when_it_comes_back():
    cluster = answered()
    victim = subprocess.Popen(
        [sys.executable, "-c", FROZEN_FOR_REAL, str(cluster.execution().pk), cluster.now.isoformat()],
        env=os.environ | {"DATABASE_URL": _address(), "DJANGO_SETTINGS_MODULE": "controlplane.settings.base"},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert os.WIFSTOPPED(os.waitpid(victim.pid, os.WUNTRACED)[1])
        cluster.until(lambda: cluster.incident().state != "open", limit=60)
        done = effects(cluster)
        os.kill(victim.pid, signal.SIGCONT)
        shown, told = victim.communicate(timeout=60)
    finally:
        victim.kill()
    assert (done["launches"], done["commands"], done["spends"]) == ([1, 2], EXPECTED["commands"], 1)
    assert "stood still inside a transaction, so the database ended it" in told
    assert "Traceback" not in told
    assert shown == "10s\n"
    assert (victim.returncode, effects(cluster)) == (0, done)


def _address():
    settings = connection.settings_dict
    return f"postgresql://{settings['USER']}:{settings['PASSWORD']}@{settings['HOST']}:{settings['PORT']}/{settings['NAME']}"


@pytest.mark.django_db(transaction=True)
def test_two_workers_at_once_do_everything_once():
    cluster = trained(Cluster().build())
    cluster.kill_rank(2)

    def work(name):
        try:
            pipeline.sweep_run(cluster.run.pk, name, cluster.now)
            for execution in Execution.objects.all():
                runbooks.pursue(execution.pk, name, cluster.now)
        finally:
            connections.close_all()

    for _ in range(25):
        cluster.now += timedelta(seconds=1)
        cluster.beat()
        cluster.make_step()
        cluster.answer()
        cluster.post()
        fleet_watch.sweep_fleet("fleet", cluster.now)
        workers = [threading.Thread(target=work, args=(f"worker:{number}",)) for number in range(3)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join(60)
    found = effects(cluster)
    assert found["launches"] == [1, 2]
    assert found["commands"] == EXPECTED["commands"]
    assert (found["executions"], found["spends"]) == (1, 1)
    assert cluster.run.incidents.count() == 1
