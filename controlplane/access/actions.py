"""Everything that changes people, links and tokens."""

from datetime import datetime, timedelta

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import Q
from django.urls import reverse

from controlplane.access.models import ApiToken, Role, SignInLink, User
from controlplane.access.secrets import digest, new_password, new_token
from controlplane.domain.errors import Conflict, Invalid, NotFound, Refused

LINK_LIFE = timedelta(minutes=15)
MAX_TOKEN_NAME = 100
MAX_TOKENS_PER_PERSON = 50


def make_sign_in_link(user: User, now: datetime, *, life: timedelta = LINK_LIFE) -> str:
    """Return an absolute address that signs `user` in once, until `now + life`."""
    token = new_token()
    SignInLink.objects.create(user=user, digest=digest(token), created_at=now, expires_at=now + life)
    return settings.BASE_URL.rstrip("/") + reverse("access:link", args=[token])


def use_sign_in_link(token: str, now: datetime) -> User:
    """Spend the link and return its person.

    Raises `NotFound` when the link is unknown, spent, too old, or its person was put aside.
    """
    live = SignInLink.objects.filter(digest=digest(token), used_at=None, expires_at__gt=now, user__is_active=True)
    if not live.update(used_at=now):
        raise NotFound("this sign-in link was used already, is too old, or never existed")
    return SignInLink.objects.select_related("user").get(digest=digest(token)).user


def create_person(name: str, role: str, now: datetime) -> tuple[User, str]:
    """Create a person; return them with a one-time password that they must change when they first sign in."""
    if User.objects.filter(username=name).exists():
        raise Conflict(f"there is a person named {name} already")
    one_time = new_password()
    user = User(username=name, role=_role(role), must_change_password=True, date_joined=now)
    user.set_password(one_time)
    try:
        user.full_clean()
    except ValidationError as error:
        raise Invalid("name", " ".join(error.messages)) from error
    user.save(force_insert=True)
    return user, one_time


def set_own_password(user: User, password: str) -> None:
    """Give the person the password that they chose themselves."""
    user.set_password(password)
    user.must_change_password = False
    user.save(update_fields=["password", "must_change_password"])


@transaction.atomic
def set_role(name: str, role: str) -> User:
    """Change a person's role; refuses to leave the installation without an admin."""
    user = _locked(name)
    if Role(_role(role)) is not Role.ADMIN:
        _keep_an_admin(user)
    user.role = role
    user.save(update_fields=["role"])
    return user


@transaction.atomic
def set_active(name: str, *, active: bool) -> User:
    """Put a person aside, or take them back; their sessions, links and tokens work only while active."""
    user = _locked(name)
    if not active:
        _keep_an_admin(user)
    user.is_active = active
    user.save(update_fields=["is_active"])
    return user


def make_api_token(user: User, name: str, now: datetime) -> str:
    """Return a new bearer token for the REST API; it is shown this once and stored as a hash."""
    if not 0 < len(name) <= MAX_TOKEN_NAME:
        raise Invalid("name", f"must have 1 to {MAX_TOKEN_NAME} characters")
    if ApiToken.objects.filter(user=user, revoked_at=None).count() >= MAX_TOKENS_PER_PERSON:
        raise Refused(f"{user.username} has {MAX_TOKENS_PER_PERSON} tokens already: revoke one first")
    token = new_token()
    ApiToken.objects.create(user=user, name=name, digest=digest(token), created_at=now)
    return token


def revoke_api_token(user: User, token_id: int, now: datetime) -> None:
    """Make one of the person's tokens useless; raises `NotFound` when there is none to revoke."""
    if not ApiToken.objects.filter(user=user, pk=token_id, revoked_at=None).update(revoked_at=now):
        raise NotFound("no such token")


def _role(role: str) -> str:
    if role not in Role.values:
        raise Invalid("role", f"must be one of {', '.join(Role.values)}")
    return role


def _locked(name: str) -> User:
    """Lock the person and all admins, so that two changes at once cannot remove the last admin."""
    rows = User.objects.select_for_update().filter(Q(username=name) | Q(role=Role.ADMIN)).order_by("pk")
    for user in rows:
        if user.username == name:
            return user
    raise NotFound(f"there is no person named {name}")


def _keep_an_admin(user: User) -> None:
    others = User.objects.filter(role=Role.ADMIN, is_active=True).exclude(pk=user.pk)
    if user.role == Role.ADMIN and not others.exists():
        raise Refused(f"{user.username} is the only admin left")
