"""The one socket of a page: it carries facts outwards and takes nothing in.

Acts go over HTTP, where forms, CSRF and status codes are; whatever a client says
here is ignored, and a talkative one is shown out.
"""

import asyncio
import contextlib
import json
import time
from typing import Any
from urllib.parse import parse_qs

import redis
from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncWebsocketConsumer
from django.contrib.auth import get_user_model

from controlplane.domain.errors import Invalid
from controlplane.live import registry, topics
from controlplane.live.pulse import PULSE
from controlplane.live.topics import Topic

PING_S = 5.0
RECHECK_PINGS = 12
MAX_CLIENT_MESSAGES = 20

READY = '{"ready":true}'

CLOSE_BAD_TOPICS = 4400
CLOSE_SIGNED_OUT = 4401
CLOSE_FORBIDDEN = 4403
CLOSE_TALKATIVE = 4429
CLOSE_TRY_AGAIN = 1013


class LiveConsumer(AsyncWebsocketConsumer):
    """Follows the topics of one page for one person."""

    groups_joined: tuple[Topic, ...] = ()
    heard = 0
    user_id = 0
    heart: asyncio.Task[None] | None = None

    async def connect(self) -> None:
        """Accept first: a refusal before the handshake would tell the page no reason."""
        await self.accept()
        reason = await self._refusal()
        if reason is not None:
            await self.close(reason)
            return
        try:
            for topic in self.groups_joined:
                await self.channel_layer.group_add(topic.group, self.channel_name)
        except (redis.RedisError, OSError):
            await self.close(CLOSE_TRY_AGAIN)
            return
        await self.send(READY)
        self.heart = asyncio.create_task(self._beat())

    async def disconnect(self, code: int) -> None:  # noqa: ARG002 - the framework's signature
        """Leave every group; a Redis that is gone has forgotten us anyway."""
        if self.heart is not None:
            self.heart.cancel()
        for topic in self.groups_joined:
            with contextlib.suppress(redis.RedisError, OSError):
                await self.channel_layer.group_discard(topic.group, self.channel_name)

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:  # noqa: ARG002
        """Ignore what a client says; acts go over HTTP."""
        self.heard += 1
        if self.heard > MAX_CLIENT_MESSAGES:
            await self.close(CLOSE_TALKATIVE)

    async def live_message(self, event: dict[str, Any]) -> None:
        """Pass one envelope on as it is: it was rendered once, by the publisher."""
        await self.send(json.dumps(event["envelope"], separators=(",", ":")))

    async def _refusal(self) -> int | None:
        """Parse the topics and check the person's rights; return a close code or None."""
        user = self.scope.get("user")
        if user is None or not user.is_authenticated:
            return CLOSE_SIGNED_OUT
        query = parse_qs(self.scope["query_string"].decode("latin-1"))
        try:
            wanted = topics.parse_list(query.get("topics", [""])[0])
        except Invalid:
            return CLOSE_BAD_TOPICS
        if not all(registry.may_follow(user, topic.kind, topic.subject) for topic in wanted):
            return CLOSE_FORBIDDEN
        self.groups_joined = wanted
        self.user_id = user.pk
        return None

    async def _beat(self) -> None:
        """Ping while the servers behind us answer; show a person out whose account was closed."""
        for count in range(1, 1 << 40):
            reading = await PULSE.read()
            if reading.ok:
                ping = {"ping": time.time_ns() // 1_000_000, "age_s": reading.age_s}
                await self.send(json.dumps(ping))
            if count % RECHECK_PINGS == 0 and not await still_welcome(self.user_id):
                await self.close(CLOSE_SIGNED_OUT)
                return
            await asyncio.sleep(PING_S)


@database_sync_to_async
def still_welcome(user_id: int) -> bool:
    """Whether the account is still open."""
    return get_user_model().objects.filter(pk=user_id, is_active=True).exists()
