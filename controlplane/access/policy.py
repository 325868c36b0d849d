"""The one question that pages, REST and sockets ask: may this person do this?"""

from django.contrib.auth.models import AnonymousUser

from controlplane.access.models import User
from controlplane.domain.access.policy import Role, allows, least_role
from controlplane.domain.errors import Forbidden

__all__ = ["least_role", "may", "require", "role_of"]


def role_of(user: User | AnonymousUser) -> Role | None:
    """Return the person's role, or nothing for somebody unknown or put aside."""
    if not isinstance(user, User) or not user.is_active:
        return None
    return Role.ADMIN if user.is_superuser else Role(user.role)


def may(user: User | AnonymousUser, act: str) -> bool:
    """Tell whether `user` may do `act` (an act of `domain.access.policy.LEAST_ROLE`)."""
    role = role_of(user)
    return role is not None and allows(role, act)


def require(user: User | AnonymousUser, act: str) -> None:
    """Raise `Forbidden`, naming the role that is missing, unless `user` may do `act`."""
    if not may(user, act):
        raise Forbidden(f"this needs the role {least_role(act)}; yours is {role_of(user) or 'none'}")
