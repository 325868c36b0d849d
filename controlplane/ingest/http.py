"""The few pieces of HTTP that agents need, without a framework's cost per request."""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import msgspec

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

BODY_TIMEOUT_S = 30.0
"""How long a client may take to send its body."""

_encode = msgspec.json.Encoder().encode
_JSON = (b"content-type", b"application/json")


class Problem(Exception):
    """A request that is answered with an error: a status, a stable code, a sentence."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        retry_after_s: int | None = None,
        close: bool = False,
        **more: Any,
    ) -> None:
        """`more` goes into the answer beside `error` and `message`."""
        super().__init__(message)
        self.status = status
        self.body = {"error": code, "message": message, **more}
        self.headers: list[tuple[bytes, bytes]] = []
        if retry_after_s is not None:
            self.headers.append((b"retry-after", b"%d" % retry_after_s))
        if close:
            self.headers.append((b"connection", b"close"))


class Disconnected(Exception):
    """The client went away; nobody is left to answer."""


def header(scope: Scope, name: bytes) -> bytes | None:
    """Return the first header of this lower-case name."""
    for key, value in scope["headers"]:
        if key == name:
            return bytes(value)
    return None


async def read_body(scope: Scope, receive: Receive, limit: int) -> bytes:
    """Read the whole body; 413 as soon as it is known to be longer than `limit` bytes."""
    declared = header(scope, b"content-length")
    if declared is not None and declared.isdigit() and int(declared) > limit:
        raise _too_large(limit)
    try:
        async with asyncio.timeout(BODY_TIMEOUT_S):
            message = await receive()
            body = _part(message)
            return await _read_rest(body, receive, limit) if message.get("more_body") else _within(body, limit)
    except TimeoutError:
        raise Problem(408, "timeout", "the body did not arrive in time", close=True) from None


async def _read_rest(first: bytes, receive: Receive, limit: int) -> bytes:
    parts, size, more = [first], len(first), True
    while more:
        message = await receive()
        parts.append(_part(message))
        size += len(parts[-1])
        if size > limit:
            raise _too_large(limit)
        more = bool(message.get("more_body"))
    return _within(b"".join(parts), limit)


def _part(message: Message) -> bytes:
    if message["type"] == "http.disconnect":
        raise Disconnected
    return bytes(message.get("body", b""))


def _within(body: bytes, limit: int) -> bytes:
    if len(body) > limit:
        raise _too_large(limit)
    return body


def _too_large(limit: int) -> Problem:
    return Problem(413, "too_large", f"the body is larger than {limit} bytes", close=True)


def too_many(wait_s: int) -> Problem:
    """Build the 429."""
    return Problem(429, "rate_limited", f"too many requests, try again in {wait_s} s", retry_after_s=wait_s)


async def answer(send: Send, value: Any, status: int = 200, headers: list[tuple[bytes, bytes]] | None = None) -> None:
    """Send one JSON answer."""
    body = _encode(value)
    length = (b"content-length", b"%d" % len(body))
    await send({"type": "http.response.start", "status": status, "headers": [_JSON, length, *(headers or [])]})
    await send({"type": "http.response.body", "body": body})
