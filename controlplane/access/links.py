"""One-time links that let a person act from a message, without a session and at three in the morning.

A link names what it is for, what it is about and whom it was sent to; whoever holds it
speaks for that person, so it works once, for a short time, and dies when its subject is
settled. Looking at a link spends nothing, because mail scanners open every address.
Only the hash is stored.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import QuerySet
from django.urls import reverse

from controlplane.access.models import ActLink, SignInLink
from controlplane.access.secrets import digest, new_token
from controlplane.domain.errors import Invalid, NotFound

PURPOSES = ("approve", "reject", "acknowledge")
MAX_LIFE = timedelta(days=7)
KEPT = timedelta(days=30)
"""How long a dead link is remembered, so that its page can say what became of it."""
DEAD = "this link was used already, is too old, or never existed"


@dataclass(frozen=True, slots=True)
class Link:
    """What a link does (`purpose`), to what (`subject`, as `incident:12`), and for whom; "" is for anybody."""

    purpose: str
    subject: str
    person: str = ""

    @property
    def number(self) -> int:
        """The number in the subject."""
        return int(self.subject.partition(":")[2])


def make(purpose: str, subject: str, *, person: str = "", now: datetime, life: timedelta) -> str:
    """Return an absolute address that does one thing once, until `now + life`.

    Without `person` whoever opens it has to be signed in.

    Raises:
        Invalid: the purpose is unknown, the subject has no number, or it would live too long.
    """
    if purpose not in PURPOSES:
        raise Invalid("purpose", f"must be one of {', '.join(PURPOSES)}")
    kind, _, number = subject.partition(":")
    if not kind or not number.isdecimal():
        raise Invalid("subject", "must be a kind and a number, as incident:12")
    if not timedelta(0) < life <= MAX_LIFE:
        raise Invalid("life", f"must be more than nothing and at most {MAX_LIFE.days} days")
    token = new_token()
    ActLink.objects.create(
        digest=digest(token), purpose=purpose, subject=subject, person=person, created_at=now, expires_at=now + life
    )
    return settings.BASE_URL.rstrip("/") + reverse("act", args=[token])


def look(token: str, now: datetime) -> Link:
    """Return what a link would do, without spending it; `NotFound` when it does nothing any more."""
    row = _live(now).filter(digest=digest(token)).first()
    if row is None:
        raise NotFound(DEAD)
    return Link(row.purpose, row.subject, row.person)


def take(token: str, now: datetime) -> Link:
    """Spend a link and return what it does; of two who press at once one gets `NotFound`.

    Take it in the transaction of the act: what is refused leaves the link as it was.
    """
    link = look(token, now)
    if not _live(now).filter(digest=digest(token)).update(used_at=now):
        raise NotFound(DEAD)
    return link


def revoke(subject: str, now: datetime, *, purpose: str = "") -> int:
    """Make the links about a subject useless, of one purpose or all; returns how many there were."""
    about = _live(now).filter(subject=subject)
    return (about.filter(purpose=purpose) if purpose else about).update(revoked_at=now)


def forget(now: datetime) -> int:
    """Delete what has been dead for a month; returns how many."""
    gone, _ = ActLink.objects.filter(expires_at__lt=now - KEPT).delete()
    return gone


def forget_sign_in(now: datetime, keep: timedelta) -> int:
    """Delete sign-in links that were over before `now - keep`; returns how many."""
    gone, _ = SignInLink.objects.filter(expires_at__lt=now - keep).delete()
    return gone


def _live(now: datetime) -> QuerySet[ActLink]:
    return ActLink.objects.filter(used_at=None, revoked_at=None, expires_at__gt=now)
