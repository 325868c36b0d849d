"""Whether automation may act at all, as one row for the fleet and one for each run say.

Two things stand in them: the kill switch, which a person pulls, and the breaker, which
opens by itself. Who is about to act asks with `share`: the rows then stay as they are
until that transaction ends, so whoever switches off knows at the commit that nothing
begins any more. It is one of PostgreSQL's advisory locks, because they queue: whoever
switches off waits for the acts that are being written, and no later act overtakes them.
"""

from dataclasses import dataclass
from datetime import datetime

from django.db import transaction

from controlplane.rows import ask, columns, parted
from controlplane.runs.models import Automation, Run

FLEET = "fleet"
LOCK = 6_271_005
"""Names the lock among PostgreSQL's advisory ones."""
CLOSED: dict[str, object] = {"opened_at": None, "opened_why": ""}
ON: dict[str, object] = {"off_at": None, "off_by": "", "off_why": ""}


def name_of(run: Run | None) -> str:
    """Name the row of a run, or of the fleet."""
    return f"run:{run.pk}" if run is not None else FLEET


@dataclass(frozen=True, slots=True)
class Standing:
    """The rows that bind a run, or the fleet alone; the fleet's comes first."""

    rows: tuple[Automation, ...]

    @property
    def off(self) -> Automation | None:
        """The row whose kill switch is off, or None."""
        return next((row for row in self.rows if row.off_at is not None), None)

    @property
    def opened(self) -> Automation | None:
        """The row whose breaker is open, or None."""
        return next((row for row in self.rows if row.opened_at is not None), None)

    def counts_since(self, run: Run | None) -> datetime | None:
        """When the breaker of a run, or of the fleet, was reset; nothing before that counts."""
        return next((row.counts_since for row in self.rows if row.name == name_of(run)), None)

    @property
    def processed_at(self) -> datetime | None:
        """When a person last said to answer what was found by then."""
        return max((row.processed_at for row in self.rows if row.processed_at), default=None)

    @property
    def why_off(self) -> str:
        """Say in one clause who switched automation off and why, or ""."""
        row = self.off
        if row is None:
            return ""
        where = "everywhere" if row.name == FLEET else "for this run"
        return f"{row.off_by} switched automation off {where}" + (f": {row.off_why}" if row.off_why else "")

    @property
    def why_opened(self) -> str:
        """Say in one clause why automation only proposes, or ""."""
        row = self.opened
        if row is None:
            return ""
        whose = "of the fleet " if row.name == FLEET else ""
        return f"the breaker {whose}is open: {row.opened_why}"


def standing(run: Run | None) -> Standing:
    """Read how automation stands for a run, or for the fleet alone."""
    found = ask(_ROWS.format(columns=columns(Automation, "automation")), [names(run)])
    return Standing(tuple(parted(row, Automation)[0] for row in found))


_ROWS = "SELECT {columns} FROM runs_automation AS automation WHERE name = ANY(%s) ORDER BY name"
SWITCH_OFF = "SELECT * FROM runs_automation WHERE name = ANY(%s) AND off_at IS NOT NULL ORDER BY name LIMIT 1"
"""The row whose kill switch is off, of those that `names` says; the fleet's comes first."""
SHARE = f"pg_advisory_xact_lock_shared({LOCK})"
"""What keeps the rows as they are; who takes it as part of a statement reads them in a later one."""


def share(run: Run | None) -> Standing:
    """Read the same and keep it so until the surrounding transaction ends; call it before an act is written."""
    ask(f"SELECT {SHARE}")
    return standing(run)


def names(run: Run | None) -> list[str]:
    """Name the rows that bind a run, or the fleet alone."""
    return [FLEET] if run is None else [FLEET, name_of(run)]


def _change(run: Run | None, field: str, *, from_set: bool, **values: object) -> bool:
    """Change the row when the time in `field` is set, or is not, as expected; acts that are being written end first."""
    with transaction.atomic():
        ask("SELECT pg_advisory_xact_lock(%s)", [LOCK])
        Automation.objects.get_or_create(name=name_of(run), defaults={"run": run})
        rows = Automation.objects.filter(name=name_of(run), **{f"{field}__isnull": not from_set})
        return bool(rows.update(**values))


def turn_off(run: Run | None, by: str, why: str, now: datetime) -> bool:
    """Pull the kill switch; False when it is off already. Acts that are being written end first."""
    return _change(run, "off_at", from_set=False, off_at=now, off_by=by, off_why=why)


def turn_on(run: Run | None, now: datetime, *, process: bool) -> bool:
    """Take the kill switch back; False when it is on already."""
    answered = {"processed_at": now} if process else {}
    return _change(run, "off_at", from_set=True, **ON, **answered)


def open_breaker(run: Run | None, why: str, now: datetime) -> bool:
    """Let automation only propose from now on; False when the breaker is open already."""
    return _change(run, "opened_at", from_set=False, opened_at=now, opened_why=why)


def close_breaker(run: Run | None, now: datetime, *, process: bool) -> bool:
    """Let automation act again; what happened before counts no more. False when the breaker was closed."""
    answered = {"processed_at": now} if process else {}
    return _change(run, "opened_at", from_set=True, counts_since=now, **CLOSED, **answered)
