"""Render a topic once and send it to every page that follows it.

Publishing is best effort: the tables and the chronicle hold the truth, pages ask
for what they missed. A Redis that is gone therefore costs a log line, never the
work that was just committed.
"""

import asyncio
import logging
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import redis
from asgiref.sync import async_to_sync
from channels.layers import get_channel_layer
from django.db import DatabaseError

from controlplane.domain.errors import NotFound
from controlplane.live import registry, store
from controlplane.live.topics import Topic

log = logging.getLogger(__name__)

SEND_TIMEOUT_S = 2.0
MESSAGE_TYPE = "live.message"
NOTHING: Mapping[Topic, set[str]] = MappingProxyType({})


def publish(touched: Mapping[Topic, set[str]], now_ms: int, *, later: Mapping[Topic, set[str]] = NOTHING) -> int:
    """Send regions of topics; returns how many topics were sent. Never raises for trouble outside.

    What nobody follows is not rendered: at night that is nearly everything. `later` waits for the next flush.
    """
    try:
        followed = store.leave(touched, later)
    except (redis.RedisError, OSError) as trouble:
        log.warning("live update of %s was not sent: %s", ", ".join(map(str, [*touched, *later])), trouble)
        return 0
    return sum(_publish(topic, touched[topic], now_ms) for topic in followed)


def _publish(topic: Topic, regions: set[str], now_ms: int) -> bool:
    try:
        for envelope in envelopes(topic, regions, now_ms):
            send(topic, envelope)
    except (redis.RedisError, OSError, TimeoutError, DatabaseError) as trouble:
        log.warning("live update of %s was not sent: %s", topic, trouble)
        return False
    except NotFound:
        return False
    except Exception:  # whatever a renderer raises costs only its own topic
        log.exception("live update of %s could not be rendered", topic)
        return False
    return True


def envelopes(topic: Topic, regions: set[str], now_ms: int) -> list[dict[str, Any]]:
    """Render what a publisher sends: one envelope of HTML and one of numbers, as needed."""
    version = store.next_version(topic, now_ms)
    since = store.last_sent(topic) if registry.CHRONICLE in regions else None
    fragment = registry.render(topic.kind, topic.subject, regions, since)
    if registry.CHRONICLE in regions and fragment.seq:
        store.remember_sent(topic, fragment.seq)
    return pack(topic, fragment, version)


def pack(topic: Topic, fragment: registry.Fragment, version: int) -> list[dict[str, Any]]:
    """Put a fragment into envelopes: numbers travel apart from HTML."""
    head = {"seq": fragment.seq, "topic": str(topic), "version": version}
    packed: list[dict[str, Any]] = []
    if fragment.content:
        packed.append({**head, "newest": fragment.newest, "content": fragment.content})
    if fragment.series is not None:
        packed.append({**head, "series": fragment.series})
    return packed


def send(topic: Topic, envelope: dict[str, Any]) -> None:
    """Hand one envelope to the channel layer, within a time limit."""

    async def deliver() -> None:
        layer = get_channel_layer()
        assert layer is not None, "settings name the channel layer"  # noqa: S101
        message = {"type": MESSAGE_TYPE, "envelope": envelope}
        await asyncio.wait_for(layer.group_send(topic.group, message), SEND_TIMEOUT_S)

    async_to_sync(deliver)()
