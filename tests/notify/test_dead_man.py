"""The outside world hears from us only while we are well."""

from datetime import timedelta

import pytest

from controlplane.notify import arranging, deadman
from controlplane.notify.models import DeadMan
from controlplane.runs.models import Machine, Run
from controlplane.watch import vitals

from .conftest import NOW, after


@pytest.fixture
def outside(db, receiver):
    return arranging.add_dead_man("world", f"{receiver.url}/ping/secret", 30, "root", NOW)


def test_a_sign_is_given_every_so_many_seconds_and_never_twice(receiver, outside):
    given = [deadman.sign(outside.pk, [], lambda at=second: after(at)) for second in (0, 0, 10, 30)]
    assert given == [True, None, None, True]
    assert [one["path"] for one in receiver.got] == ["/ping/secret", "/ping/secret"]
    assert deadman.due(after(59)) == []
    assert deadman.due(after(60)) == [outside.pk]


def test_no_sign_is_given_while_a_part_is_not_well(receiver, outside):
    assert deadman.sign(outside.pk, ["nobody has looked at run demo for 40 s"], lambda: NOW) is False
    row = DeadMan.objects.get()
    assert receiver.got == []
    assert row.why == "withheld: nobody has looked at run demo for 40 s"
    assert row.last_ok_at is None


def test_its_address_is_not_kept_readable(receiver, outside):
    assert "secret" not in outside.place + outside.secret


def test_a_run_that_nobody_looks_at_is_not_well(db):
    run = Run.objects.create(name="demo", launcher="head", nodes_wanted=1, created_at=NOW, state="running")
    assert vitals.unwell(NOW) == []
    Machine.objects.create(name="fleet", swept_at=NOW)
    Machine.objects.create(name=f"run:{run.pk}", run=run, swept_at=NOW - timedelta(seconds=40))
    assert vitals.unwell(NOW) == ["nobody has looked at run demo for 40 s"]
    Run.objects.update(state="completed")
    assert vitals.unwell(NOW) == []
