import threading
import time
from datetime import UTC, datetime

import pytest

from controlplane.runs.models import Run
from controlplane.watch import wake
from tests.patience import within

NOW = datetime(2026, 11, 29, tzinfo=UTC)


class Sent:
    """Collects hints with the time at which they left."""

    def __init__(self):
        self.keys, self.times, self.changed = [], [], threading.Condition()

    def __call__(self, key):
        with self.changed:
            self.keys.append(key)
            self.times.append(time.monotonic())
            self.changed.notify_all()

    def wait_for(self, count):
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.keys) >= count, 30)


def test_a_hint_leaves_at_once():
    sent = Sent()
    began = time.monotonic()
    wake.Hints(sent).ask(("run", "demo"))
    sent.wait_for(1)
    assert sent.times[0] - began < 0.05


def test_a_burst_of_hints_leaves_as_the_first_and_one_last():
    sent = Sent()
    hints = wake.Hints(sent, window_s=0.2)
    hints.ask(("run", "demo"))
    sent.wait_for(1)
    for _ in range(50):
        hints.ask(("run", "demo"))
    sent.wait_for(2)
    time.sleep(0.3)
    assert len(sent.keys) == 2
    assert sent.times[1] - sent.times[0] >= 0.2


def test_hints_of_different_runs_do_not_wait_for_each_other():
    sent = Sent()
    hints = wake.Hints(sent, window_s=60)
    for run in ("a", "b", "c"):
        hints.ask(("run", run))
    sent.wait_for(3)
    assert sorted(sent.keys) == [("run", "a"), ("run", "b"), ("run", "c")]


@pytest.fixture
def messages(monkeypatch, transactional_db):
    sender, sent = wake.Sender(), []
    monkeypatch.setattr(sender._celery, "send_task", lambda name, args, **_: sent.append((name.split(".")[-1], args)))
    return sender, sent


def test_hints_become_messages_to_the_watch(messages):
    sender, sent = messages
    run = Run.objects.create(name="demo", launcher="head", nodes_wanted=1, created_at=NOW)
    for key in (("run", "demo"), ("execution", "7"), ("fleet", ""), ("rerun", "3")):
        sender(key)
    assert sent == [("sweep_run", [run.pk]), ("advance", [7]), ("sweep_fleet", []), ("rerun", [3])]


def test_names_that_nobody_knows_are_looked_up_once_a_second_and_wake_nobody(messages, monkeypatch):
    sender, sent = messages
    clock = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    sender(("run", "later"))
    run = Run.objects.create(name="later", launcher="head", nodes_wanted=1, created_at=NOW)
    clock[0] += wake.LOOK_EVERY_S / 2
    sender(("run", "later"))
    assert sent == []
    clock[0] += wake.LOOK_EVERY_S / 2
    sender(("run", "later"))
    assert sent == [("sweep_run", [run.pk])]


def test_a_broker_that_is_away_is_not_waited_for():
    sender = wake.Sender()
    sender._celery.conf.broker_url = "redis://127.0.0.1:1/0"
    began = time.monotonic()
    sender(("fleet", ""))
    sender(("execution", "1"))
    assert time.monotonic() - began < within(3)
