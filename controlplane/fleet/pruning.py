"""Forget commands that ended a season ago: every look of an agent would otherwise leave a row for ever."""

from collections.abc import Collection
from datetime import datetime, timedelta

from controlplane.fleet.commands import FINAL
from controlplane.fleet.models import Command, CommandState

AT_ONCE = 20_000
"""Rows that one look deletes; the next goes on."""
STANDS = ("job.hold", "job.release")
HEARD = (CommandState.SUCCEEDED, CommandState.REFUSED)
"""The last of these that was heard tells how a run's waiting jobs stand, however long ago it was sent.

What came to nothing is asked again each minute, so it is forgotten like the rest.
"""


def prune(now: datetime, keep: timedelta, *, living: Collection[int]) -> int:
    """Delete commands that ended before `now - keep`, those of the `living` executions excepted; returns how many.

    An execution that goes on looks for what it sent before, and would send it again.
    """
    ended = Command.objects.filter(state__in=FINAL, finished_at__lt=now - keep)
    old = ended.exclude(execution_id__in=living).exclude(kind__in=STANDS, state__in=HEARD)
    gone, _ = Command.objects.filter(pk__in=list(old.values_list("pk", flat=True)[:AT_ONCE])).delete()
    return gone
