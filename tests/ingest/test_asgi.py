import asyncio

from controlplane import asgi
from controlplane.ingest import app


def called(monkeypatch, scope):
    calls = []

    def part(name):
        async def answer(*_):
            calls.append(name)

        return answer

    for name in ("_ingest", "_live", "_django"):
        monkeypatch.setattr(asgi, name, part(name))
    asyncio.run(asgi.application(scope, None, None))
    return calls


def test_agents_never_enter_djangos_request_path(monkeypatch):
    for path in app.ROUTES:
        assert called(monkeypatch, {"type": "http", "path": path}) == ["_ingest"]


def test_people_and_their_rest_api_go_to_django(monkeypatch):
    for path in ("/", "/api/v1/runs", "/api/v1/ingest/", "/api/v1/docs"):
        assert called(monkeypatch, {"type": "http", "path": path}) == ["_django"]


def test_sockets_go_to_the_live_layer_and_the_lifespan_to_ingest(monkeypatch):
    assert called(monkeypatch, {"type": "websocket", "path": "/live/"}) == ["_live"]
    assert called(monkeypatch, {"type": "lifespan"}) == ["_ingest"]
