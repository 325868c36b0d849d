"""Whether the parts that a recovery needs are well, for the outside world's sake."""

from datetime import datetime, timedelta

from controlplane.events import queries as events
from controlplane.runs.machines import FLEET
from controlplane.runs.models import Machine
from controlplane.runs.queries import awake

SWEPT_WITHIN = timedelta(seconds=30)
BEHIND_AT_MOST = timedelta(seconds=30)


def unwell(now: datetime) -> list[str]:
    """Say what is not well: runs that nobody looks at, and events that wait for the watch."""
    machines = Machine.objects.filter(run__in=awake()) | Machine.objects.filter(name=FLEET)
    oldest = machines.exclude(swept_at=None).order_by("swept_at").select_related("run").first()
    if oldest is None:
        return []
    return [*_swept(oldest, now), *_behind(oldest, now)]


def _swept(machine: Machine, now: datetime) -> list[str]:
    since = now - machine.swept_at if machine.swept_at else timedelta(0)
    if since <= SWEPT_WITHIN:
        return []
    return [f"nobody has looked at {_name(machine)} for {since.total_seconds():.0f} s"]


def _behind(machine: Machine, now: datetime) -> list[str]:
    """The machine that was looked at longest ago is behind whenever one is."""
    run = machine.run.name if machine.run else None
    waiting = events.since(machine.cursor, run=run, limit=1)
    if not waiting or now - waiting[0].received_at <= BEHIND_AT_MOST:
        return []
    return [f"events of {_name(machine)} wait since {waiting[0].received_at:%H:%M:%S} UTC"]


def _name(machine: Machine) -> str:
    return f"run {machine.run.name}" if machine.run else "the fleet"
