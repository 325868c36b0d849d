"""Who is asking: a bearer token for programs, the session for people and the docs page."""

from django.conf import settings
from django.http import HttpRequest
from ninja.security import APIKeyCookie, HttpBearer

from controlplane.access import policy, queries
from controlplane.access.door import must_choose_password
from controlplane.access.models import User
from controlplane.domain.errors import Forbidden, Unauthenticated


class ApiTokenAuth(HttpBearer):
    """`Authorization: Bearer <token>` as made by `manage.py api-token`."""

    def authenticate(self, request: HttpRequest, token: str) -> User:
        """Return the token's person; a wrong token is never forgiven for a session beside it."""
        del request
        person = queries.person_of_token(token)
        if person is None:
            raise Unauthenticated("the token is unknown or was revoked")
        return person


class SessionAuth(APIKeyCookie):
    """The session of a signed-in person; writes need the CSRF token of a page as `X-CSRFToken`."""

    param_name = settings.SESSION_COOKIE_NAME

    def __call__(self, request: HttpRequest) -> User | None:
        """Check for forged requests only where there is a session that could be misused."""
        person: User | None = super().__call__(request) if request.user.is_authenticated else None
        return person

    def authenticate(self, request: HttpRequest, key: str | None) -> User:
        """Return the person, who must have chosen an own password."""
        del key
        assert isinstance(request.user, User)  # noqa: S101 - __call__ looked
        if must_choose_password(request):
            raise Forbidden("choose an own password first")
        return request.user


def person(request: HttpRequest, act: str) -> User:
    """Return who asks; raises `Forbidden`, naming the role, unless they may do `act`."""
    asking: User = request.auth  # type: ignore[attr-defined]
    policy.require(asking, act)
    return asking


BEARER = ApiTokenAuth()
SESSION = SessionAuth()
