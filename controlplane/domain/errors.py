"""The one tree of errors that Middlewatch raises on purpose.

Each class has a stable `code`. Where an error leaves the program, one place
maps its code to an HTTP status, a page fragment or an exit message, so a new
error needs no new handling.
"""


class MiddlewatchError(Exception):
    """Base of every expected failure."""

    code = "error"


class Invalid(MiddlewatchError):
    """The caller sent something that does not make sense; names the field."""

    code = "invalid"

    def __init__(self, field: str, why: str) -> None:
        """Name the `field` and say why it does not make sense."""
        super().__init__(f"{field}: {why}")
        self.field = field
        self.why = why


class NotFound(MiddlewatchError):
    """The thing named does not exist."""

    code = "not_found"


class Conflict(MiddlewatchError):
    """The state was not the expected one: somebody else moved first."""

    code = "conflict"


class Refused(MiddlewatchError):
    """A guard, a hold or a rule forbids the act."""

    code = "refused"


class Forbidden(MiddlewatchError):
    """The actor's role does not allow the act."""

    code = "forbidden"


class Unauthenticated(MiddlewatchError):
    """No valid token or session came with the request."""

    code = "unauthenticated"


class LeaseLost(MiddlewatchError):
    """Another worker owns the run or execution by now; stop without a trace."""

    code = "lease_lost"


class Unavailable(MiddlewatchError):
    """Nothing can be made durable at the moment; try again later."""

    code = "unavailable"
