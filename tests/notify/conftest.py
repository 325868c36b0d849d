"""Receivers that are real, and do what a test tells them: fail, stall, redirect, answer twice."""

import json
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from controlplane.domain.notify.text import Told
from controlplane.notify import actions, arranging, planning, registry, sending

NOW = datetime(2026, 11, 30, 3, 0, tzinfo=UTC)
OURS = ["127.0.0.0/8"]


def after(seconds):
    return NOW + timedelta(seconds=seconds)


class Receiver:
    """An HTTP server on this machine; `replies` are used up one by one, then it takes everything."""

    def __init__(self):
        self.replies, self.got = [], []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                receiver.got.append({"path": self.path, "headers": dict(self.headers), "body": body})
                reply = receiver.replies.pop(0) if receiver.replies else 200
                if isinstance(reply, Callable):
                    reply(self)
                else:
                    status, headers = reply if isinstance(reply, tuple) else (reply, {})
                    self.send_response(status)
                    for name, value in headers.items():
                        self.send_header(name, value)
                    self.end_headers()
                    self.wfile.write(b"noted")

            do_GET = do_POST  # noqa: N815 - the name that the server calls

            def log_message(self, *_):
                """Say nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server.server_port}"

    def json(self, index=-1):
        return json.loads(self.got[index]["body"])


def stalls(seconds):
    return lambda _handler: time.sleep(seconds)


def drips(handler):
    """Send one header for ever, a letter at a time: no single read is slow."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
    try:
        for _ in range(100):
            handler.wfile.write(b"x")
            handler.wfile.flush()
            time.sleep(0.05)
    except OSError:
        pass


def floods(handler):
    handler.send_response(200)
    handler.end_headers()
    try:
        for _ in range(1000):
            handler.wfile.write(b"x" * 65536)
    except OSError:
        pass


@pytest.fixture
def receiver():
    with Receiver() as made:
        yield made


@pytest.fixture(autouse=True)
def _allowed(settings):
    settings.NOTIFY_ALLOW = OURS
    settings.BASE_URL = "https://watch.example.org"


def _told(subject):
    return Told(subject=subject, sentence=f"{subject} is open", run=f"run-{int(subject.partition(':')[2]) % 3}")


@pytest.fixture(autouse=True)
def world(monkeypatch):
    """What incidents say of themselves, by subject."""
    words = {}
    monkeypatch.setitem(
        registry._renderers, "incident",
        lambda subject, _now: words.get(subject) or _told(subject),
    )  # fmt: skip
    return words


@pytest.fixture
def transport(db, receiver):
    def make(name="ana", kind="webhook", **given):
        return arranging.add_transport(name, kind, {"url": f"{receiver.url}/{name}", **given}, "root", NOW)

    return make


@pytest.fixture
def rule(db):
    def make(*steps, name="night", **more):
        """Make a rule whose steps are (delay, transport)."""
        made = [arranging.NewStep(after_s=delay, transports=[one.pk]) for delay, one in steps]
        return arranging.add_rule(arranging.NewRule(name=name, severity="info", steps=made, **more), "root", NOW)

    return make


class Night:
    """The night in steps of a given clock: `night.until(60)` does what beat does in that time."""

    def __init__(self):
        self.second = 0.0

    def call(self, number=1, **more):
        facts = {"run": "demo", "klass": "hang", "severity": "critical", "loud": True, **more}
        key = facts.pop("key", f"k{number}")
        return actions.call(f"incident:{number}", key=key, now=after(self.second), **facts)

    def until(self, second, step=1.0):
        while self.second < second:
            self.second += step
            self.tend()

    def tend(self):
        now = after(self.second)
        planning.plan(now)
        for pk in sending.due(now, 4):
            sending.send(pk, lambda: now)


@pytest.fixture
def night(db):
    return Night()
