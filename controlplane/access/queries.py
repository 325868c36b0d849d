"""Read who is who."""

from datetime import datetime

from django.db.models import QuerySet

from controlplane.access.models import ApiToken, SignInLink, User
from controlplane.access.secrets import digest
from controlplane.domain.errors import NotFound


def person(name: str) -> User:
    """Return the person called `name`; raises `NotFound`."""
    user = User.objects.filter(username=name).first()
    if user is None:
        raise NotFound(f"there is no person named {name}")
    return user


def people() -> QuerySet[User]:
    """Return everybody, by name."""
    return User.objects.order_by("username")


def person_of_link(token: str, now: datetime) -> User | None:
    """Return whom a link would sign in, without spending it; nothing when it is spent or too old."""
    found = SignInLink.objects.filter(
        digest=digest(token), used_at=None, expires_at__gt=now, user__is_active=True
    ).select_related("user").first()  # fmt: skip
    return found.user if found else None


def person_of_token(bearer: str) -> User | None:
    """Return the person whom an API token speaks for; nothing when it was revoked or the person put aside."""
    found = ApiToken.objects.filter(
        digest=digest(bearer), revoked_at=None, user__is_active=True
    ).select_related("user").first()  # fmt: skip
    return found.user if found else None


def tokens_of(user: User) -> QuerySet[ApiToken]:
    """Return a person's API tokens that still work, newest first."""
    return ApiToken.objects.filter(user=user, revoked_at=None).order_by("-created_at", "-id")
