"""A time in which automation takes no node out: one cause has taken many, and one answer is enough.

It is kept in a table, so it outlives every process, and it ends by itself. People move
nodes as ever, and a launch goes on taking spares.
"""

from datetime import datetime, timedelta

from controlplane.domain.chronicle.sentences import full_stop
from controlplane.domain.errors import Invalid
from controlplane.fleet.models import NodeState
from controlplane.quarantine.models import Freeze
from controlplane.runs.book import Book

TAKES_OUT = (NodeState.QUARANTINED, NodeState.DRAINING)
LONGEST = timedelta(days=1)


def freeze(why: str, length: timedelta, *, by: str, now: datetime, book: Book) -> Freeze:
    """Let automation take out no node for a while; the same `by` again is the same freeze.

    Raises:
        Invalid: the time is not above 0 and at most a day.
    """
    if not timedelta(0) < length <= LONGEST:
        raise Invalid("length", "must be above 0 and at most 24 h")
    made, fresh = Freeze.objects.get_or_create(by=by, defaults={"why": why, "at": now, "until": now + length})
    if fresh:
        told = full_stop(f"Automation takes no node out until {made.until:%H:%M} UTC: {why}")
        book.tell("fleet", "hold", told, key=f"freeze:{made.pk}")
    return made


def thaw(*, by: str, now: datetime, book: Book) -> bool:
    """End a freeze before its time; False when it had ended."""
    lifted = bool(Freeze.objects.filter(by=by, until__gt=now).update(until=now))
    if lifted:
        book.tell("fleet", "resume", "Automation may take nodes out again.", key=f"thaw:{by}")
    return lifted


def frozen(now: datetime) -> Freeze | None:
    """Return the freeze that holds now and ends last, or None."""
    return Freeze.objects.filter(at__lte=now, until__gt=now).order_by("-until").first()
