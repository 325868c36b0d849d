"""A control plane in miniature for the agent's tests: it remembers, and it fails when told to."""

import gzip
import json
import select
import socket
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import zstandard

from tests.patience import within

Answer = tuple[int, dict[str, Any], dict[str, str]]


def _is_for(token: str, item: Any) -> bool:
    return not isinstance(item, dict) or item.get("only_for", token) == token


def _nothing(batch: dict[str, Any]) -> Answer | None:
    return None


class Plane:
    """Stores each event once by (node, incarnation, seq) and acknowledges the lowest contiguous range."""

    def __init__(self) -> None:
        self.lock = threading.Condition()
        self.events: dict[tuple[str, str, int], dict[str, Any]] = {}
        self.batches: list[dict[str, Any]] = []
        self.requests: list[str] = []
        self.commands: list[dict[str, Any]] = []
        self.next_in_ms = 200
        self.skew_ms = 0
        self.poll_s = 0.5
        self.hook: Callable[[dict[str, Any]], Answer | None] = _nothing  # before it is stored
        self.after: Callable[[dict[str, Any]], Answer | None] = _nothing  # after it is stored
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self.server.daemon_threads = True
        self.server.handle_error = lambda *_: None  # agents are killed in the middle of a request here
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True)
        self.thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def ingest(self, batch: dict[str, Any]) -> Answer:
        answer = self.hook(batch)
        if answer is not None:
            return answer
        node, incarnation = batch["agent"]["node"], batch["agent"]["incarnation"]
        with self.lock:
            self.batches.append(batch)
            for event in batch["events"]:
                self.events.setdefault((node, incarnation, event["seq"]), {**event, "incarnation": incarnation})
            seqs = sorted(seq for n, i, seq in self.events if (n, i) == (node, incarnation))
            self.lock.notify_all()
        ack = next((seq for place, seq in enumerate(seqs) if seqs[place + 1 : place + 2] != [seq + 1]), 0)
        answer = self.after(batch)
        body = {"ack": ack, "commands_waiting": len(self.commands), "next_in_ms": self.next_in_ms}
        return answer or (200, body, {})

    def hand_out(self, token: str, there: Callable[[], bool]) -> list[dict[str, Any]]:
        """Give the commands for the bearer (`only_for`, absent: for anyone), waiting for one while it is `there`."""
        deadline = time.monotonic() + self.poll_s
        while True:
            if not there():
                return []
            with self.lock:
                given = [
                    item for item in self.commands if not isinstance(item, dict) or item.get("only_for", token) == token
                ]
                if given or time.monotonic() > deadline:
                    self.commands = [item for item in self.commands if item not in given]
                    return given
            time.sleep(0.01)

    def of_kind(self, kind: str) -> list[dict[str, Any]]:
        with self.lock:
            return [event for event in self.events.values() if event["kind"] == kind]

    def wait(self, true: Callable[[], Any], seconds: float = 15.0) -> Any:
        """Give what `true` gives as soon as it is something, and fail at the deadline."""
        deadline = time.monotonic() + within(seconds)
        while time.monotonic() < deadline:
            value = true()
            if value:
                return value
            with self.lock:
                self.lock.wait(0.02)
        raise AssertionError(f"not within {seconds} s; events so far: {[e['kind'] for e in self.events.values()]}")

    def wait_kind(self, kind: str, count: int = 1, seconds: float = 15.0) -> list[dict[str, Any]]:
        return self.wait(lambda: found if len(found := self.of_kind(kind)) >= count else None, seconds)


def _handler(plane: Plane) -> type[BaseHTTPRequestHandler]:  # noqa: C901 - one small handler
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def log_message(self, *args: object) -> None: ...

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            unpack = {"gzip": gzip.decompress, "zstd": lambda b: zstandard.decompress(b, 64 << 20)}
            body = unpack.get(self.headers.get("Content-Encoding", ""), bytes)(body)
            plane.requests.append(f"POST {self.path} {self.headers.get('Authorization', '')}")
            if self.path == "/api/v1/enrol":
                self.reply(*_enrol(json.loads(body)))
            elif body == b"{}":
                good = self.headers.get("Authorization") == "Bearer good"
                self.reply(400 if good else 401, {"error": "malformed"}, {})
            else:
                self.reply(*plane.ingest(json.loads(body)))

        def do_GET(self) -> None:
            plane.requests.append(f"GET {self.path}")
            if self.path == "/api/v1/ping":
                self.reply(200, {"now_ms": int(time.time() * 1000) + plane.skew_ms}, {})
                return
            token = self.headers.get("Authorization", "").removeprefix("Bearer ")
            self.reply(200, {"commands": plane.hand_out(token, self.there)}, {})

        def there(self) -> bool:
            """Whether the agent still holds the line: one that was killed must take no command with it."""
            heard, _, _ = select.select([self.connection], [], [], 0)
            return not heard or self.connection.recv(1, socket.MSG_PEEK) != b""

        def reply(self, status: int, body: dict[str, Any], headers: dict[str, str]) -> None:
            if status == 0:  # hang up without a word
                self.close_connection = True
                return
            text = json.dumps(body).encode()
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(text))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(text)

    return Handler


def _enrol(body: dict[str, Any]) -> Answer:
    if body["token"] == "mw-enrol":
        return 201, {"token": f"node-token-of-{body['node']}"}, {}
    return 401, {"error": "unknown token"}, {}
