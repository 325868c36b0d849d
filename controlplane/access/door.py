"""Whether a session still has to choose a password of its own.

A one-time password may be known to whoever passed it on, so it must be replaced
at once. A one-time link is spent by its use: whoever came by one goes straight in.
"""

from django.http import HttpRequest

from controlplane.access.models import User

_BY_LINK = "signed_in_by_link"


def came_by_link(request: HttpRequest) -> None:
    """Remember in the session that a one-time link opened it."""
    request.session[_BY_LINK] = True


def must_choose_password(request: HttpRequest) -> bool:
    """Whether the person of this session signed in with a one-time password and has not chosen an own one."""
    return isinstance(request.user, User) and request.user.must_change_password and not request.session.get(_BY_LINK)
