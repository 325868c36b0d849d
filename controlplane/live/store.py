"""The little that the live layer keeps in Redis; all of it may vanish at any time."""

from collections.abc import Collection, Iterable, Mapping
from functools import cache

import redis
from django.conf import settings

from controlplane.live.topics import Topic

DIRTY = "mw-live:dirty"
BEAT = "mw-live:beat"
GROUPS = "mw-live"
"""Prefix of the channel layer, as the settings name it."""
TIMEOUT_S = 2.0
KEEP_S = 86_400


@cache
def client() -> redis.Redis:
    """One client per process; it connects when it is first used."""
    return redis.Redis.from_url(
        settings.REDIS_URL, socket_timeout=TIMEOUT_S, socket_connect_timeout=TIMEOUT_S, decode_responses=True
    )


def next_version(topic: Topic, now_ms: int) -> int:
    """Number this rendering; take it before reading the database.

    Whoever holds the greater number read later, so a page may drop a smaller one
    that arrives after it. Starting from the clock keeps numbers growing when Redis
    comes back empty.
    """
    key = f"mw-live:version:{topic}"
    pipe = client().pipeline(transaction=True)
    pipe.set(key, now_ms, nx=True, ex=KEEP_S)
    pipe.incr(key)
    pipe.expire(key, KEEP_S)
    return int(pipe.execute()[1])


def current_version(topic: Topic) -> int:
    """Number of the newest rendering that was begun, 0 when none is known."""
    value = client().get(f"mw-live:version:{topic}")
    return 0 if value is None else int(str(value))


def followed(topics: Iterable[Topic]) -> list[Topic]:
    """Return the topics that any page follows; a page that joins later asks for what it missed."""
    groups = {f"{GROUPS}__group__{topic.group}": topic for topic in topics}
    counts = client().pubsub_numsub(*groups) if groups else []
    return [groups[str(group)] for group, count in counts if count]


def forget_sent(topics: Collection[Topic]) -> None:
    """Nobody follows the topics: whoever comes later begins with the newest entry."""
    if topics:
        client().delete(*(f"mw-live:sent:{topic}" for topic in topics))


def last_sent(topic: Topic) -> int | None:
    """Number of the newest chronicle entry that was sent to this topic."""
    value = client().get(f"mw-live:sent:{topic}")
    return None if value is None else int(str(value))


def remember_sent(topic: Topic, number: int) -> None:
    """Note what was sent. A race may lower it: pages drop entries that they have."""
    client().set(f"mw-live:sent:{topic}", number, ex=KEEP_S)


def mark_dirty(touched: Mapping[Topic, set[str]]) -> None:
    """Leave regions of topics for the next flush."""
    if touched:
        client().sadd(DIRTY, *(f"{topic}|{region}" for topic, regions in touched.items() for region in regions))


def take_dirty() -> dict[str, set[str]]:
    """Take every waiting region away, by topic."""
    pipe = client().pipeline(transaction=True)
    pipe.smembers(DIRTY)
    pipe.delete(DIRTY)
    found: dict[str, set[str]] = {}
    for member in pipe.execute()[0]:
        topic, _, region = str(member).partition("|")
        found.setdefault(topic, set()).add(region)
    return found


def beat(now_ms: int) -> None:
    """Tell that the workers are alive."""
    client().set(BEAT, now_ms)


def last_beat() -> int | None:
    """When the workers were last alive, in milliseconds since the epoch."""
    value = client().get(BEAT)
    return None if value is None else int(str(value))
