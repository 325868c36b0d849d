import asyncio
import http.client
import json
import threading
from datetime import UTC, datetime

import pytest
import uvicorn
from middlewatch_wire import AgentIdentity, Batch, encode_batch

from controlplane.fleet import actions as fleet
from controlplane.ingest.app import Application


class Server:
    """The real application behind a real uvicorn, in a thread of the test."""

    def __init__(self):
        self.config = uvicorn.Config(
            Application(), port=0, log_level="warning", access_log=False, lifespan="on", timeout_graceful_shutdown=1
        )
        self.uvicorn = uvicorn.Server(self.config)
        self.thread = threading.Thread(target=lambda: asyncio.run(self.uvicorn.serve()), daemon=True)

    def __enter__(self):
        self.thread.start()
        while not self.uvicorn.started:
            assert self.thread.is_alive()
        self.port = self.uvicorn.servers[0].sockets[0].getsockname()[1]
        return self

    def __exit__(self, *_):
        self.uvicorn.should_exit = True
        self.thread.join(10)

    def request(self, method, path, body=None, *, token=None, timeout=15, **headers):
        link = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        if token:
            headers["Authorization"] = f"Bearer {token}"
        if isinstance(body, dict):
            body = json.dumps(body).encode()
        try:
            link.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
            response = link.getresponse()
            return Answer(response.status, json.loads(response.read()), dict(response.getheaders()))
        finally:
            link.close()

    def post(self, *events, token, node="n01", incarnation="i1"):
        return self.request("POST", "/api/v1/ingest", body(*events, node=node, incarnation=incarnation), token=token)


class Answer:
    def __init__(self, status, body, headers):
        self.status, self.body, self.headers = status, body, {k.lower(): v for k, v in headers.items()}


def body(*events, node="n01", incarnation="i1"):
    agent = AgentIdentity(node=node, incarnation=incarnation)
    return encode_batch(Batch(agent=agent, sent_at_ms=1, events=list(events)))


@pytest.fixture
def server(transactional_db):
    with Server() as running:
        yield running


@pytest.fixture
def enrol(transactional_db):
    def buy(node="n01"):
        now = datetime.now(UTC)
        return fleet.enrol(fleet.create_enrolment_token("test", now), node, now)

    return buy


@pytest.fixture
def token(enrol):
    return enrol()
