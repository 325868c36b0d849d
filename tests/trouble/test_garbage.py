"""Whatever a stranger sends to whatever address: an answer below 500, and the server lives."""

import os
import random
import socket
import time
from urllib.parse import urlsplit

import pytest
import urllib3

from tests.patience import within

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("world")]

PATHS = (
    "/", "/healthz", "/readyz", "/api/v1/ingest", "/api/v1/commands", "/api/v1/commands?wait_s=nan", "/api/v1/enrol",
    "/api/v1/ping", "/api/v1/token/rotate", "/api/v1/runs", "/api/v1/runs/%00", "/api/v1/runs/x/launch",
    "/api/v1/incidents/99999999999999999999", "/api/v1/incidents?after=-1", "/api/v1/nodes?limit=1e9",
    "/api/v1/docs", "/api/v1/openapi.json", "/live/resync?topics=%ff&since=a:b", "/live/", "/sign-in", "/runs/%2e%2e/x",
    "/static/../../etc/passwd", "/incidents/1", "/nodes/%f0%9f%92%a9", "/api/v1/executions/0", "/" + "a" * 4000,
)  # fmt: skip
METHODS = ("GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD", "TRACE", "BREW")
DEEP = b"[" * 200_000
HUGE_NUMBER = (
    b'{"wire": 1, "agent": {"node": "n01", "incarnation": "x"}, "sent_at_ms": 1' + b"0" * 5000 + b', "events": []}'
)


@pytest.fixture(scope="module")
def tokens(yard):
    """Nobody, a stranger, an agent and an operator: each comes in somewhere further."""
    agent = (yard.cluster.state("n04") / "token").read_text().strip()
    return ["", "Bearer nonsense", f"Bearer {agent}", yard.client._headers["Authorization"]]


def bodies(chance):
    return [
        b"", b"{}", b"null", b"\xff\xfe\x00", chance.randbytes(3000), DEEP, b'{"a":' * 3000 + b"1" + b"}" * 3000,
        HUGE_NUMBER, b'{"name": "\\u0000", "launcher": "\\ud800", "nodes_wanted": -1, "policy": {"x": NaN}}',
    ]  # fmt: skip


def ask(pool, method, url, token, body, **headers):
    given = {"Authorization": token, **headers} if token else headers
    return pool.request(method, url, body=body, headers=given, retries=False, timeout=20, redirect=False)


def lives(yard):
    return urllib3.request("GET", f"{yard.url}/api/v1/ping", retries=False, timeout=10).status == 200


def test_no_method_and_no_body_at_any_address_is_answered_by_a_failure(yard, tokens):
    chance = random.Random(4)
    bad, pool = [], urllib3.PoolManager(maxsize=1)
    for path in PATHS:
        for method in METHODS:
            token, body = chance.choice(tokens), chance.choice(bodies(chance))
            kind = chance.choice(["application/json", "text/plain", "multipart/form-data", "\xff"])
            answer = ask(pool, method, yard.url + path, token, body, **{"Content-Type": kind})
            if answer.status >= 500 and answer.status != 501:
                bad.append((method, path, token[:10], body[:40], answer.status))
    assert bad == []
    assert lives(yard)


@pytest.mark.parametrize("path", ["/api/v1/ingest", "/api/v1/enrol", "/api/v1/runs", "/api/v1/token/rotate"])
def test_every_body_for_every_bearer(yard, tokens, path):
    chance, pool = random.Random(5), urllib3.PoolManager(maxsize=1)
    for token in tokens:
        for body in bodies(chance):
            for encoding in ("identity", "gzip", "zstd", "br"):
                headers = {"Content-Type": "application/json", "Content-Encoding": encoding}
                answer = ask(pool, "POST", yard.url + path, token, body, **headers)
                assert answer.status < 500, (token[:10], body[:40], encoding, answer.data[:200])
    assert lives(yard)


@pytest.mark.parametrize(
    "raw",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + os.urandom(200),
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /api/v1/ping HTTP/1.1\r\nHost: x\r\nX-Long: " + b"a" * 200_000 + b"\r\n\r\n",
        b"GET /api/v1/ping HTTP/1.1\r\n" + b"X-Many: 1\r\n" * 20_000 + b"\r\n",
        b"POST /api/v1/ingest HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n",
        b"POST /api/v1/ingest HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\n",
        b"POST /api/v1/ingest HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nZZZ\r\n",
        b"GET /live/ HTTP/1.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 99\r\n\r\n",
        b"GET http://[::1 HTTP/1.1\r\nHost: \xff\xfe\r\n\r\n",
        os.urandom(5000),
    ],
    ids=["tls", "version", "long header", "many headers", "negative length", "endless length", "bad chunk", "upgrade",
         "host", "noise"],
)  # fmt: skip
def test_broken_http_is_no_failure(yard, raw):
    place = urlsplit(yard.url)
    with socket.create_connection((place.hostname, place.port), timeout=5) as link:
        try:
            link.sendall(raw)
            link.settimeout(3)
            answer = link.recv(4096)
        except (TimeoutError, ConnectionError):
            answer = b""
    assert b" 500 " not in answer.split(b"\r\n", 1)[0]
    assert lives(yard)


def test_clients_that_send_their_bodies_slowly_keep_nobody_else_waiting(yard, tokens):
    place = urlsplit(yard.url)
    slow = [socket.create_connection((place.hostname, place.port), timeout=5) for _ in range(60)]
    try:
        for link in slow:
            head = (
                f"POST /api/v1/ingest HTTP/1.1\r\nHost: x\r\nAuthorization: {tokens[2]}\r\nContent-Length: 1000\r\n\r\n"
            )
            link.sendall(head.encode() + b"{")
        began = time.monotonic()
        assert lives(yard)
        assert time.monotonic() - began < within(3)
    finally:
        for link in slow:
            link.close()
    assert lives(yard)
