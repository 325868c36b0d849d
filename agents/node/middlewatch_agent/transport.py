"""One keep-alive HTTP connection to the control plane, bounded in time and size.

The standard library's client costs a third of the memory of a pooling one, and
an agent needs exactly one connection per thread.
"""

import gzip
import http.client
import importlib
import ssl
import urllib.parse
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from middlewatch_agent import __version__

MAX_ANSWER_BYTES = 4 << 20
COMPRESS_FROM_BYTES = 1024
CONNECT_S = 5.0
ANSWER_S = 30.0
# The connection was closed while it was idle: nobody has read our request, so it is repeated at once.
STALE = (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError)


class UnreachableError(Exception):
    """No answer: name, route, TLS, timeout or broken HTTP; the message is for people."""


class Answer(NamedTuple):
    """Status, decoded JSON body (None if it was none) and the seconds of Retry-After."""

    status: int
    body: Any
    retry_after_s: float


class Connection:
    """Belongs to one thread."""

    def __init__(self, url: str, *, ca_file: str | None = None, answer_s: float = ANSWER_S) -> None:
        """Remember where to; connects with the first request. Raises ValueError for a bad address."""
        parts = urllib.parse.urlsplit(url)
        if not parts.hostname:
            raise ValueError(f"url: {url!r} names no host")
        self._prefix = parts.path.rstrip("/")
        self._answer_s = answer_s
        self._http = _client(parts, ca_file)

    def request(self, method: str, path: str, body: bytes | None = None, *, token: str | None = None) -> Answer:
        """Send and wait for the answer; raises UnreachableError when there is none."""
        headers = {"User-Agent": f"middlewatch-agent/{__version__}"}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        if body is not None:
            headers["Content-Type"] = "application/json"
            if len(body) >= COMPRESS_FROM_BYTES:
                headers["Content-Encoding"], body = compress(body)
        try:
            return self._exchange(method, self._prefix + path, body, headers)
        except (OSError, http.client.HTTPException, ValueError) as error:
            self.close()
            raise UnreachableError(f"{type(error).__name__}: {error}") from error

    def _exchange(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> Answer:
        reused = self._http.sock is not None
        try:
            return self._once(method, path, body, headers)
        except STALE:
            self.close()
            if not reused:
                raise
            return self._once(method, path, body, headers)

    def _once(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> Answer:
        self._connect()
        self._http.request(method, path, body, headers)
        response = self._http.getresponse()
        text = response.read(MAX_ANSWER_BYTES + 1)
        if len(text) > MAX_ANSWER_BYTES:
            raise http.client.HTTPException(f"an answer over {MAX_ANSWER_BYTES} bytes")
        return Answer(response.status, _json(text), _seconds(response.getheader("Retry-After")))

    def _connect(self) -> None:
        if self._http.sock is None:
            self._http.connect()
        if self._http.sock is not None:
            self._http.sock.settimeout(self._answer_s)

    def close(self) -> None:
        """Close; the next request connects again."""
        self._http.close()


def compress(body: bytes) -> tuple[str, bytes]:
    """Give the content encoding and the packed body: zstd where installed, gzip elsewhere."""
    packer = _zstd()
    return ("zstd", packer(body)) if packer else ("gzip", gzip.compress(body, compresslevel=1, mtime=0))


_packers: list[Callable[[bytes], bytes] | None] = []


def _zstd() -> Callable[[bytes], bytes] | None:
    if not _packers:
        try:
            _packers.append(importlib.import_module("zstandard").ZstdCompressor(level=1).compress)
        except ImportError:
            _packers.append(None)
    return _packers[0]


def _client(parts: urllib.parse.SplitResult, ca_file: str | None) -> http.client.HTTPConnection:
    host = str(parts.hostname)
    if parts.scheme == "https":
        context = ssl.create_default_context(cafile=ca_file)
        return http.client.HTTPSConnection(host, parts.port, timeout=CONNECT_S, context=context)
    return http.client.HTTPConnection(host, parts.port, timeout=CONNECT_S)


def _json(text: bytes) -> Any:
    try:
        return msgspec.json.decode(text) if text else None
    except (msgspec.DecodeError, RecursionError):
        return None


def _seconds(header: str | None) -> float:
    try:
        return max(0.0, float(header)) if header else 0.0
    except ValueError:
        return 0.0  # an HTTP date: our own back-off will do


class Token:
    """The node's token, read again whenever the file changes, so that a new enrolment needs no restart."""

    def __init__(self, path: Path) -> None:
        """Remember the file; it may not exist yet."""
        self.path = path
        self._seen: tuple[int, int] | None = None
        self._value: str | None = None

    def read(self) -> str | None:
        """Give the token, or None where there is none."""
        try:
            status = self.path.stat()
        except OSError:
            return None
        seen = (status.st_mtime_ns, status.st_ino)
        if seen != self._seen:
            self._value = self.path.read_text().strip() or None
            self._seen = seen
        return self._value
