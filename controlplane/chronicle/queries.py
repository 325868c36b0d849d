"""Read the chronicle."""

from django.db.models import QuerySet

from controlplane.chronicle.models import Entry, Stream
from controlplane.domain.errors import NotFound


def entries(stream: str, *, after: int = 0) -> QuerySet[Entry]:
    """Return the entries of `stream` with a number above `after`, by number; empty when nothing was told."""
    return Entry.objects.filter(stream__name=stream, number__gt=after).select_related("stream", "corrects")


def last_number(stream: str) -> int:
    """Return the number of the newest entry, 0 when nothing was told."""
    return Stream.objects.filter(name=stream).values_list("last_number", flat=True).first() or 0


def entry(stream: str, number: int) -> Entry:
    """Return one entry of `stream`; raises `NotFound`."""
    found = entries(stream).filter(number=number).first()
    if found is None:
        raise NotFound(f"{stream} has no entry {number}")
    return found
