"""Read the log from a moment in the past on, for recordings."""

from datetime import datetime

from controlplane.events.models import Event
from controlplane.events.queries import FIELDS, MAX_LIMIT, StoredEvent


def id_before(moment: datetime) -> int:
    """Return the id of the newest event that was received before `moment`, 0 when there is none."""
    found = Event.objects.filter(received_at__lt=moment).order_by("-received_at", "-id")
    return found.values_list("id", flat=True).first() or 0


def newest(kind: str, *, node: str, upto: int) -> StoredEvent | None:
    """Return a node's newest event of a kind with an id of at most `upto`."""
    rows = Event.objects.filter(kind=kind, node=node, id__lte=upto).order_by("-id").values_list(*FIELDS)[:1]
    return next((StoredEvent(*row) for row in rows), None)


def of_attempt(kind: str, run: str, attempt: int, *, upto: int) -> list[StoredEvent]:
    """Return the events of a kind about one attempt with ids of at most `upto`, oldest first, bounded."""
    found = Event.objects.filter(kind=kind, run=run, attempt=attempt, id__lte=upto).order_by("id")
    return [StoredEvent(*row) for row in found.values_list(*FIELDS)[:MAX_LIMIT]]
