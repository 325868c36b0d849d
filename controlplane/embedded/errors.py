"""What goes wrong while a private server or the group is started, in words for the person at the terminal."""

from controlplane.domain.errors import MiddlewatchError


class CannotStart(MiddlewatchError):
    """Something on this machine stands in the way; the message says what and what to do."""

    code = "cannot_start"
