"""Let one worker at a time own a row, without losing the knock of another.

A worker takes a lease by compare-and-set and gets a fencing number; whatever it
writes later checks that number, so a worker that slept past its lease writes
nothing. Whoever finds the row taken knocks and leaves. Who gives the row back
learns whether somebody knocked, and then comes again with a fresh clock, so news
that arrives while it finishes does not wait for the next timer.
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import IntEnum
from time import monotonic
from typing import Any

from django.db import models
from django.db.models import F, Q

from controlplane.domain.errors import LeaseLost
from controlplane.rows import ask, columns, parted, source

CLOCKS_APART = timedelta(seconds=30)
"""How far the clocks of two workers may be apart without one taking the other's lease for a mistake."""


class Look(IntEnum):
    """What came of a look at a leased row; false when there was none."""

    TAKEN = 0  # another worker has it, and has been knocked at
    DONE = 1
    AGAIN = 2  # more is waiting, or somebody knocked: look again, at a later `now`


class Leased(models.Model):
    """A row that one worker owns at a time."""

    owner = models.CharField(max_length=100, blank=True)
    lease_until = models.DateTimeField(null=True)
    fence = models.BigIntegerField(default=0, help_text="grows with each claim; an older claim writes nothing")
    knocks = models.BigIntegerField(default=0, help_text="how often somebody came while it was taken")

    class Meta:
        abstract = True


@dataclass(frozen=True, slots=True)
class Lease:
    """Proof of ownership: the row by its key, who owns it, and the fencing number."""

    rows: "models.QuerySet[Any]"
    row: int
    owner: str
    fence: int
    knocks: int
    taken: datetime
    seconds: float
    since: float = field(default_factory=monotonic)
    """Measured with a clock that only counts: how long the owner has been at it, whatever time it was."""

    def held_s(self) -> float:
        """Return for how long the row has been owned."""
        return monotonic() - self.since

    def renewed(self) -> datetime:
        """Return until when the lease holds if it is renewed now; whoever saves the row writes it."""
        return self.taken + timedelta(seconds=self.held_s() + self.seconds)

    def mine(self) -> "models.QuerySet[Any]":
        """Return the row as long as nobody else has claimed it."""
        return self.rows.filter(fence=self.fence)

    def locked(self) -> Any:
        """Lock the row for this transaction and return it.

        Raises:
            LeaseLost: somebody else claimed it meanwhile.
        """
        model = self.rows.model
        mine = f"SELECT {columns(model, 'mine')} FROM {source(model, 'mine')}"  # noqa: S608 - names of a model
        found = ask(f"{mine} WHERE id = %s AND fence = %s FOR NO KEY UPDATE", [self.row, self.fence])
        if not found:
            raise LeaseLost(f"{self.owner} lost its lease")
        return parted(found[0], model)[0]


def take(rows: "models.QuerySet[Any]", owner: str, now: datetime, seconds: float) -> Lease | None:
    """Claim the one row of `rows` for `owner`, or knock and return None when it is taken.

    A lease that ends much later than one taken now was written by a clock that ran ahead, or before ours was
    set back: nobody waits for it. Its owner, if it lives, loses it and writes nothing.
    """
    until = now + timedelta(seconds=seconds)
    free = Q(owner="") | Q(lease_until__lt=now) | Q(lease_until__gt=until + CLOCKS_APART) | Q(owner=owner)
    if rows.filter(free).update(owner=owner, lease_until=until, fence=F("fence") + 1):
        row = rows.filter(owner=owner).values_list("pk", "fence", "knocks").first()
        return Lease(rows, row[0], owner, row[1], row[2], now, seconds) if row else None
    rows.update(knocks=F("knocks") + 1)
    return None


def give_back(lease: Lease) -> bool:
    """Free the row; False when somebody knocked meanwhile, so look again, by a fresh clock.

    A lease that was lost counts as given back: its new owner looks by itself.
    """
    free = {"owner": "", "lease_until": None}
    if lease.mine().filter(knocks=lease.knocks).update(**free):
        return True
    return not lease.mine().update(**free)
