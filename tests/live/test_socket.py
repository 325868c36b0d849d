"""The socket: who may follow what, what it says, and how it ends."""

import asyncio

import pytest
from channels.auth import AuthMiddlewareStack
from channels.db import database_sync_to_async
from channels.layers import get_channel_layer
from channels.routing import URLRouter
from channels.security.websocket import AllowedHostsOriginValidator
from django.conf import settings
from django.test import Client
from django.urls import path

from controlplane.access.models import User
from controlplane.live import consumers, pulse, store
from controlplane.live.routing import application
from controlplane.live.topics import Topic
from tests.live.conversation import Socket

pytestmark = [pytest.mark.django_db(transaction=True)]


def _cookie(role="viewer"):
    client = Client()
    client.force_login(User.objects.create_user("ana", password="x", role=role))
    return client.cookies[settings.SESSION_COOKIE_NAME].value


def _socket(path, cookie="", origin="http://testserver", app=application):
    headers = [(b"host", b"testserver"), (b"origin", origin.encode())]
    if cookie:
        headers.append((b"cookie", f"{settings.SESSION_COOKIE_NAME}={cookie}".encode()))
    return Socket(app, path, headers)


def _run(work):
    """Run one conversation on a loop of its own; database work goes to threads."""
    asyncio.run(work())


@pytest.mark.parametrize(
    ("path", "known", "code"),
    [
        ("/live/?topics=fleet", False, consumers.CLOSE_SIGNED_OUT),
        ("/live/?topics=secrets", True, consumers.CLOSE_BAD_TOPICS),
        ("/live/", True, consumers.CLOSE_BAD_TOPICS),
    ],
)
def test_a_refused_socket_is_told_why(path, known, code):
    cookie = _cookie() if known else ""

    async def talk():
        socket = _socket(path, cookie)
        assert await socket.connect()
        assert await socket.closed() == code

    _run(talk)


def test_another_site_cannot_open_a_socket(settings):
    settings.ALLOWED_HOSTS = ["testserver"]
    cookie = _cookie()

    async def talk():
        strict = AllowedHostsOriginValidator(
            AuthMiddlewareStack(URLRouter([path("live/", consumers.LiveConsumer.as_asgi())]))
        )
        socket = _socket("/live/?topics=fleet", cookie, origin="http://evil.example", app=strict)
        assert not await socket.connect()

    _run(talk)


def test_a_follower_is_ready_then_pinged_with_the_age_of_the_workers_beat():
    cookie = _cookie()
    store.client().delete(store.BEAT)

    async def talk():
        socket = _socket("/live/?topics=fleet", cookie)
        await socket.connect()
        assert await socket.hear() == {"ready": True}
        ping = await socket.hear()
        assert set(ping) == {"ping", "age_s"}
        await socket.leave()

    _run(talk)


def test_an_envelope_reaches_the_follower_as_it_was_sent():
    cookie = _cookie()
    envelope = {"seq": 3, "topic": "fleet", "version": 9, "content": "<p>é</p>"}

    async def talk():
        socket = _socket("/live/?topics=fleet", cookie)
        await socket.connect()
        assert await socket.hear() == {"ready": True}
        await get_channel_layer().group_send(Topic("fleet").group, {"type": "live.message", "envelope": envelope})
        got = await socket.hear()
        while "ping" in got:
            got = await socket.hear()
        assert got == envelope
        await socket.leave()

    _run(talk)


def test_a_talkative_client_is_shown_out():
    cookie = _cookie()

    async def talk():
        socket = _socket("/live/?topics=fleet", cookie)
        await socket.connect()
        for _ in range(consumers.MAX_CLIENT_MESSAGES + 1):
            await socket.say("hello")
        assert await socket.closed() == consumers.CLOSE_TALKATIVE

    _run(talk)


def test_a_person_whose_account_was_closed_is_shown_out(monkeypatch):
    cookie = _cookie()
    monkeypatch.setattr(consumers, "PING_S", 0.05)
    monkeypatch.setattr(consumers, "RECHECK_PINGS", 1)

    async def talk():
        socket = _socket("/live/?topics=fleet", cookie)
        await socket.connect()
        await database_sync_to_async(User.objects.update)(is_active=False)
        assert await socket.closed() == consumers.CLOSE_SIGNED_OUT

    _run(talk)


def test_no_ping_is_sent_while_a_server_behind_us_is_gone(monkeypatch):
    monkeypatch.setattr(consumers, "PING_S", 0.05)
    monkeypatch.setattr(consumers, "PULSE", pulse.Pulse())
    monkeypatch.setattr(pulse, "take", lambda: pulse.Reading(ok=False))
    cookie = _cookie()

    async def talk():
        socket = _socket("/live/?topics=fleet", cookie)
        await socket.connect()
        assert await socket.hear() == {"ready": True}
        assert await socket.receive_nothing(timeout=0.4)
        await socket.leave()

    _run(talk)
