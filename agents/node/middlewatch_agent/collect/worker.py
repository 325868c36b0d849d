"""Speak to the WorkerServer in a rank: HTTP over a unix socket."""

import http.client
import socket

from middlewatch_agent.collect.frames import Stack, main_thread

MAX_ANSWER_BYTES = 8 << 20
OK = 200


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout_s: float) -> None:
        super().__init__("rank", timeout=timeout_s)
        self._path = path

    def connect(self) -> None:
        """Connect to the socket instead of a host."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def ask(path: str | None, handler: str, *, timeout_s: float) -> bytes | None:
    """The answer of a handler, or None where there is none in time (or it is too large to be one)."""
    if not path:
        return None
    connection = _UnixConnection(path, timeout_s)
    try:
        connection.request("POST", f"/handler/{handler}")
        response = connection.getresponse()
        body = response.read(MAX_ANSWER_BYTES + 1)
        return body if response.status == OK and len(body) <= MAX_ANSWER_BYTES else None
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


def stack(path: str | None, *, timeout_s: float) -> Stack | None:
    """Where the main thread stands, or None: no server, or the interpreter is locked."""
    dump = ask(path, "dump_traceback", timeout_s=timeout_s)
    if dump is None:
        return None
    frames = main_thread(dump.decode(errors="replace"))
    return Stack(tool="worker_server", ok=True, frames=frames, thread="MainThread") if frames else None
