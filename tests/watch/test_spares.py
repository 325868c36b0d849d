"""The fleet's reducer learns from the ledger whether its spares last."""

from datetime import UTC, datetime, timedelta

import pytest

from controlplane.domain.detection.fleet import FleetMachine, Witness
from controlplane.domain.fleet.spares import Pool
from controlplane.fleet.models import Node
from controlplane.quarantine.models import LedgerEntry
from controlplane.watch.fleet import read_ledger

NOW = datetime(2026, 11, 29, 3, 0, tzinfo=UTC)


def made(name, state, **more):
    return Node.objects.create(
        name=name, state=state, state_since=NOW, enrolled_at=NOW - timedelta(days=10), state_reason="", **more
    )


@pytest.mark.django_db
def test_the_pool_counts_who_trains_who_is_spare_and_who_failed_lately():
    for number in range(4):
        made(f"n{number}", "healthy")
    made("s0", "spare")
    made("head", "spare", head=True)
    bad = made("bad", "quarantined")
    for days in (2, 40):
        LedgerEntry.objects.create(
            node=bad, at=NOW - timedelta(days=days), from_state="healthy", to_state="quarantined", reason="xid",
            actor_kind="runbook", strike=True,
        )  # fmt: skip
    assert read_ledger(NOW).pool == Pool(nodes=4, spares=1, size=2, failures=1, days=10.0)


def test_too_few_spares_are_told_once_and_taken_back_when_there_are_enough():
    machine = FleetMachine()
    short = Pool(nodes=128, spares=0, size=4, failures=8, days=10)
    (told,) = machine.sweep(1000.0, Witness(pool=short))
    assert (told.klass, told.stage, told.severity) == ("spares_low", "confirmed", "warning")
    assert machine.sweep(1060.0, Witness(pool=short)) == []
    (back,) = machine.sweep(2000.0, Witness(pool=Pool(nodes=128, spares=12, size=12, failures=8, days=10)))
    assert (back.key, back.stage) == (told.key, "cleared")


def test_without_the_ledger_nothing_is_said_of_spares():
    assert FleetMachine().sweep(1000.0, Witness()) == []
