"""One bounded HTTP exchange with a stranger.

The standard library's client is used because it takes a connection that is already made:
the one to the address that was checked. It follows no redirects, and everything that the
other side sends is bounded in size and time.
"""

import http.client
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache
from urllib.parse import SplitResult

from controlplane.domain.errors import Refused
from controlplane.domain.notify.retrying import Answer, Fate, fate_of_status
from controlplane.notify.addresses import dial
from controlplane.notify.kinds import web_address
from controlplane.notify.limits import CutOff

LIMIT_S = 10.0
QUIET_S = 5.0
"""Longest silence of the receiver."""
MAX_REPLY = 16_384
SHOWN = 200
HTTPS = 443
HTTP = 80
_FAILURES = (OSError, http.client.HTTPException, ValueError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is sent, and where to; `url` holds secrets and is told to nobody."""

    url: str
    body: bytes = b""
    headers: Mapping[str, str]
    method: str = "POST"


def ask(request: Request, now: datetime, allowed: list[str]) -> Answer:
    """Send a request and judge the reply; whatever goes wrong is an answer, too."""
    parts = web_address(request.url)
    try:
        return _judged(*_exchange(parts, request, allowed), now)
    except Refused as refusal:
        return Answer(fate=Fate.NEVER, why=str(refusal))
    except ssl.SSLCertVerificationError as error:
        return Answer(fate=Fate.AGAIN, why=f"the certificate of {parts.hostname} is not good: {error.verify_message}")
    except TimeoutError:
        return Answer(fate=Fate.AGAIN, why=f"{parts.hostname} did not answer in time")
    except _FAILURES as error:
        return Answer(fate=Fate.AGAIN, why=f"{parts.hostname} cannot be reached: {_reason(error)}"[:SHOWN])


def _exchange(parts: SplitResult, request: Request, allowed: list[str]) -> tuple[int, Mapping[str, str], bytes]:
    host = str(parts.hostname)
    port = parts.port or (HTTPS if parts.scheme == "https" else HTTP)
    with dial(host, port, allowed) as plain, CutOff(LIMIT_S, plain):
        plain.settimeout(QUIET_S)
        client = http.client.HTTPConnection(host, port)
        client.sock = _wrapped(plain, host) if parts.scheme == "https" else plain
        with client.sock:
            target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
            client.request(request.method, target, request.body, {**request.headers, **_headers(parts)})
            reply = client.getresponse()
            return reply.status, {name.lower(): value for name, value in reply.getheaders()}, reply.read(MAX_REPLY)


def _wrapped(plain: socket.socket, host: str) -> socket.socket:
    return _tls().wrap_socket(plain, server_hostname=host)


@cache
def _tls() -> ssl.SSLContext:
    return ssl.create_default_context()


def _headers(parts: SplitResult) -> dict[str, str]:
    return {"Host": parts.netloc, "User-Agent": "Middlewatch", "Connection": "close"}


def _judged(status: int, headers: Mapping[str, str], body: bytes, now: datetime) -> Answer:
    fate = fate_of_status(status)
    said = body.decode("utf-8", "replace").strip()[:SHOWN]
    proof = {"status": status, **({"said": said} if said else {})}
    if fate is Fate.DELIVERED:
        return Answer(fate=fate, proof=proof)
    redirect = ", and redirects are not followed" if 300 <= status < 400 else ""  # noqa: PLR2004 - statuses of HTTP
    why = f"the receiver answered {status}{redirect}"
    return Answer(fate=fate, why=why, proof=proof, retry_after_s=retry_after_s(headers.get("retry-after", ""), now))


def retry_after_s(text: str, now: datetime) -> float | None:
    """Read a Retry-After header: seconds or a date."""
    if text.strip().isdecimal():
        return float(text)
    try:
        at = parsedate_to_datetime(text)
    except (TypeError, ValueError):
        return None
    return max(0.0, ((at if at.tzinfo else at.replace(tzinfo=UTC)) - now).total_seconds())


def _reason(error: Exception) -> str:
    if isinstance(error, OSError):
        return str(error.strerror or error)
    return f"{type(error).__name__} {error}".strip()
