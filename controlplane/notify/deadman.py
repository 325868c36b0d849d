"""Tell the world every few seconds that Middlewatch is well, so that silence tells when it is not.

A service outside, such as one that watches cron jobs, raises the alarm when the sign
stays away. It is withheld as soon as any part that a recovery needs is not well; that
we are here and can write has shown that beat, a worker and the database are.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import F

from controlplane.domain.errors import Refused
from controlplane.domain.notify.retrying import Answer, Fate
from controlplane.notify.models import DeadMan
from controlplane.notify.secrets import unseal
from controlplane.notify.sending import Clock
from controlplane.notify.web import Request, ask

WHY_MAX = 300


def due(now: datetime) -> list[int]:
    """Return the addresses that expect a sign now."""
    return list(DeadMan.objects.filter(next_at__lte=now).values_list("pk", flat=True))


def sign(pk: int, unwell: Sequence[str], clock: Clock) -> bool | None:
    """Give one sign of life, or withhold it because of what is `unwell`; None when somebody else gave it."""
    now = clock()
    row = DeadMan.objects.filter(pk=pk, next_at__lte=now).first()
    if row is None or not _claim(row, now):
        return None
    answer = Answer(fate=Fate.AGAIN, why=f"withheld: {'; '.join(unwell)}") if unwell else _ping(row, now)
    ok = answer.fate is Fate.DELIVERED
    at = clock()
    mine = DeadMan.objects.filter(pk=pk, fence=row.fence + 1)
    mine.update(last_at=at, why=answer.why[:WHY_MAX], **({"last_ok_at": at} if ok else {}))
    return ok


def _claim(row: DeadMan, now: datetime) -> bool:
    """Set the time of the next sign before this one is given, so that none is given twice."""
    still = DeadMan.objects.filter(pk=row.pk, fence=row.fence)
    return bool(still.update(next_at=now + timedelta(seconds=row.every_s), fence=F("fence") + 1))


def _ping(row: DeadMan, now: datetime) -> Answer:
    try:
        url = unseal(row.secret)["url"]
    except Refused as refusal:
        return Answer(fate=Fate.NEVER, why=str(refusal))
    return ask(Request(url=url, headers={}, method="GET"), now, settings.NOTIFY_ALLOW)
