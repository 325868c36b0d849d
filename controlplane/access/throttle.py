"""Slow down the guessing of passwords.

Tries are counted in PostgreSQL, not in Redis, so that losing Redis neither opens
the door nor bars it. A try is counted before the password is looked at, and
refused tries are not counted: an attacker cannot keep a person out for longer
than one window, and a one-time link gets in meanwhile.
"""

from datetime import datetime, timedelta
from math import ceil

from django.db.models import QuerySet

from controlplane.access.models import SignInTry
from controlplane.access.secrets import digest
from controlplane.domain.errors import Refused

WINDOW = timedelta(minutes=15)
MAX_TRIES_PER_NAME = 10
MAX_TRIES_PER_ADDRESS = 50
MAX_DEAD_LINKS = 50


def admit(name: str, address: str, now: datetime) -> None:
    """Count one try by password; raise `Refused`, saying how long to wait, when there were too many."""
    recent = SignInTry.objects.filter(at__gt=now - WINDOW)
    for tries, limit in (
        (recent.filter(name_digest=_name_digest(name)), MAX_TRIES_PER_NAME),
        (recent.filter(address=address), MAX_TRIES_PER_ADDRESS),
    ):
        _refuse_above(tries, limit, now)
    SignInTry.objects.filter(at__lte=now - WINDOW).delete()
    SignInTry.objects.create(name_digest=_name_digest(name), address=address, at=now)


def admit_link(address: str, now: datetime) -> None:
    """Raise `Refused` for an address that opened too many links that do nothing."""
    _refuse_above(SignInTry.objects.filter(address=_of_links(address), at__gt=now - WINDOW), MAX_DEAD_LINKS, now)


def count_dead_link(address: str, now: datetime) -> None:
    """Count one link that does nothing; counted apart from passwords, since scanners open old mail."""
    SignInTry.objects.create(name_digest=_name_digest("link"), address=_of_links(address), at=now)


def forget(name: str) -> None:
    """Forget the tries for `name` after the right password came."""
    SignInTry.objects.filter(name_digest=_name_digest(name)).delete()


def _refuse_above(tries: QuerySet[SignInTry], limit: int, now: datetime) -> None:
    newest = list(tries.order_by("-at").values_list("at", flat=True)[:limit])
    if len(newest) < limit:
        return
    minutes = ceil((newest[-1] + WINDOW - now) / timedelta(minutes=1))
    raise Refused(
        f"Too many tries. Wait {minutes} minute{'s' if minutes != 1 else ''}, or ask an admin for a one-time link."
    )


def _of_links(address: str) -> str:
    return f"link {address}"[:64]


def _name_digest(name: str) -> str:
    return digest(name.strip().casefold())
