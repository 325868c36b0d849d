"""Lease, load and save the stored reducer of a run or of the fleet."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import IntegrityError, transaction

from controlplane.domain.errors import LeaseLost
from controlplane.rows import ask
from controlplane.runs.leases import Lease, give_back, take
from controlplane.runs.models import Machine, Run

FLEET = "fleet"


@dataclass(slots=True)
class Held:
    """A machine and the lease on it; the machine is renewed with each save."""

    machine: Machine
    lease: Lease


def machine_name(run: Run) -> str:
    """Return the name of a run's machine."""
    return f"run:{run.pk}"


def lease_machine(name: str, owner: str, now: datetime, seconds: float, *, run: Run | None = None) -> Held | None:
    """Own the machine `name` for `seconds`, or knock and return None when another worker has it.

    `owner` names one thread of one process; the row is made on first use.
    """
    rows = Machine.objects.filter(name=name)
    if not rows.exists():
        _make(name, run)
    lease = take(rows, owner, now, seconds)
    return Held(rows.get(), lease) if lease else None


def save_machine(
    held: Held, snapshot: Mapping[str, Any], *, cursor: int, now: datetime, rested: int | None = None, hold: str = ""
) -> None:
    """Store the reducer's state behind event `cursor`; part of the caller's transaction.

    `hold` is the fleet's reason to hold automation, empty for none.

    Raises:
        LeaseLost: another worker has claimed or saved the machine meanwhile.
    """
    machine = held.machine
    expected = held.lease.mine().filter(version=machine.version)
    machine.snapshot, machine.cursor, machine.swept_at, machine.hold = dict(snapshot), cursor, now, hold
    machine.rested_attempt = machine.rested_attempt if rested is None else rested
    machine.version += 1
    if not expected.update(**{name: getattr(machine, name) for name in _SAVED}):
        raise LeaseLost(f"machine {machine.name} was saved by another worker")


_SAVED = ("snapshot", "cursor", "swept_at", "hold", "rested_attempt", "version")


FLEET_HOLD = "SELECT hold FROM runs_machine WHERE name = 'fleet'"


def fleet_hold() -> str:
    """Return why nothing may be acted on, as the fleet's reducer last said; empty when nothing is held."""
    found = ask(FLEET_HOLD)
    return str(found[0][0]) if found else ""


def release_machine(held: Held) -> bool:
    """Give the machine back; False when somebody knocked meanwhile, so sweep once more."""
    return give_back(held.lease)


def _make(name: str, run: Run | None) -> None:
    try:
        with transaction.atomic():
            Machine.objects.create(name=name, run=run)
    except IntegrityError:
        pass  # another worker made it in the same moment
