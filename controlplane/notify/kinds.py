"""Kinds of transports and what each needs to be told.

Whatever lets somebody else speak through a transport is secret: passwords and keys,
and the addresses of web hooks, since most carry a key in their path.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from urllib.parse import SplitResult, urlsplit

from controlplane.domain.errors import Invalid

MAX_VALUE = 2000
MAX_RECIPIENTS = 20
MOST_PORT = 65535
SECURITY = ("starttls", "tls", "none")
EVENTS_ADDRESS = "https://events.pagerduty.com/v2/enqueue"


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One thing that a kind needs; `secret` ones are stored encrypted and never shown again."""

    name: str
    label: str
    help: str = ""
    secret: bool = False
    needed: bool = True
    default: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of transport; `tracks` when its receiver follows an incident from call to end by itself."""

    name: str
    title: str
    fields: tuple[Field, ...]
    tracks: bool = False


_URL = Field(name="url", label="Address", secret=True, help="https://…; redirects are not followed")

KINDS: Mapping[str, Kind] = MappingProxyType({kind.name: kind for kind in (
    Kind(name="email", title="E-mail", fields=(
        Field(name="host", label="Mail server"),
        Field(name="port", label="Port", default="587"),
        Field(name="security", label="Security", default="starttls", help="starttls, tls or none"),
        Field(name="sender", label="From"),
        Field(name="recipients", label="To", help=f"at most {MAX_RECIPIENTS}, separated by commas"),
        Field(name="username", label="User name", needed=False),
        Field(name="password", label="Password", secret=True, needed=False),
    )),
    Kind(name="webhook", title="Web hook", fields=(
        _URL,
        Field(name="authorization", label="Authorization header", secret=True, needed=False, help="as Bearer …"),
        Field(name="signing_key", label="Signing key", secret=True, needed=False,
              help="signs each body with HMAC-SHA256"),
    )),
    Kind(name="slack", title="Slack or compatible", fields=(_URL,)),
    Kind(name="pagerduty", title="PagerDuty events", tracks=True, fields=(
        Field(name="routing_key", label="Integration key", secret=True),
        Field(name="url", label="Address", secret=True, needed=False, default=EVENTS_ADDRESS),
    )),
    Kind(name="apprise", title="Any other, by Apprise", fields=(
        Field(name="url", label="Apprise address", secret=True, help="as ntfys://host/topic or tgram://token/chat"),
    )),
)})  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What was given for a transport, in order: what may be shown, what must not, and where it leads."""

    public: Mapping[str, str]
    secret: Mapping[str, str]
    place: str


def check(kind: str, given: Mapping[str, str]) -> Checked:
    """Put in order what was given for a transport of this kind.

    Raises:
        Invalid: naming the field that is unknown, missing, too long or wrong.
    """
    if kind not in KINDS:
        raise Invalid("kind", f"must be one of {', '.join(KINDS)}")
    fields = KINDS[kind].fields
    unknown = sorted(set(given) - {field.name for field in fields})
    if unknown:
        raise Invalid(unknown[0], f"{kind} has no such field; it has {', '.join(field.name for field in fields)}")
    values = {field.name: _value(field, given.get(field.name, "")) for field in fields}
    _CHECKS[kind](values)
    return Checked(
        public={field.name: values[field.name] for field in fields if not field.secret},
        secret={field.name: values[field.name] for field in fields if field.secret and values[field.name]},
        place=place(kind, values),
    )


def place(kind: str, values: Mapping[str, str]) -> str:
    """Say where a transport leads without telling its secrets."""
    if kind == "email":
        return f"{values['recipients']} by {values['host']}"
    parts = urlsplit(values["url"])
    return f"{parts.scheme}://…" if kind == "apprise" else f"{parts.scheme}://{parts.hostname}/…"


def recipients(text: str) -> list[str]:
    """Take a list of e-mail addresses apart."""
    return [part.strip() for part in text.split(",") if part.strip()]


def web_address(text: str, field: str = "url") -> SplitResult:
    """Return a web address in parts, or raise `Invalid`."""
    try:
        parts = urlsplit(text)
        fits = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        fits = False
    if not fits:
        raise Invalid(field, "must be an address as https://example.org/path")
    if parts.username is not None or parts.fragment:
        raise Invalid(field, "must hold no user name and no #")
    return parts


def _value(field: Field, given: str) -> str:
    value = given.strip() or field.default
    if field.needed and not value:
        raise Invalid(field.name, "must not be empty")
    if len(value) > MAX_VALUE:
        raise Invalid(field.name, f"must be at most {MAX_VALUE} characters")
    if not value.isprintable():
        raise Invalid(field.name, "must hold no line breaks or control characters")
    return value


def _email(values: Mapping[str, str]) -> None:
    if not values["port"].isdecimal() or not 0 < int(values["port"]) <= MOST_PORT:
        raise Invalid("port", f"must be a number from 1 to {MOST_PORT}")
    if values["security"] not in SECURITY:
        raise Invalid("security", f"must be one of {', '.join(SECURITY)}")
    to = recipients(values["recipients"])
    if not 0 < len(to) <= MAX_RECIPIENTS:
        raise Invalid("recipients", f"must be 1 to {MAX_RECIPIENTS} addresses")
    for name, address in (("sender", values["sender"]), *(("recipients", one) for one in to)):
        if not _is_mailbox(address):
            raise Invalid(name, f"{address!r} is no e-mail address")
    if values["password"] and not values["username"]:
        raise Invalid("username", "must not be empty when there is a password")


def _is_mailbox(address: str) -> bool:
    name, at, host = address.rpartition("@")
    return bool(name and at and host) and not set(address) & set(" <>\"'(),;:\\") and address.isascii()


def _web(values: Mapping[str, str]) -> None:
    web_address(values["url"])


def _apprise(values: Mapping[str, str]) -> None:
    if "://" not in values["url"]:
        raise Invalid("url", "must begin with a scheme, as ntfys://")


_CHECKS = MappingProxyType({
    "email": _email, "webhook": _web, "slack": _web, "pagerduty": _web, "apprise": _apprise,
})  # fmt: skip
