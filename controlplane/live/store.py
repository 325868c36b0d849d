"""The little that the live layer keeps in Redis; all of it may vanish at any time."""

from collections.abc import Mapping
from functools import cache

import redis
from django.conf import settings
from redis.commands.core import Script

from controlplane.live import registry
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


_LEAVE = """
    local asked = 2 + ARGV[1]
    if asked > 2 then redis.call('SADD', KEYS[1], unpack(ARGV, 2, asked - 1)) end
    local followed = {}
    for place = asked, #ARGV, 2 do
        if redis.call('PUBSUB', 'NUMSUB', ARGV[place])[2] > 0 then
            followed[#followed + 1] = (place - asked) / 2
        elseif ARGV[place + 1] ~= '' then
            redis.call('DEL', ARGV[place + 1])
        end
    end
    return followed
"""


def leave(urgent: Mapping[Topic, set[str]], later: Mapping[Topic, set[str]]) -> list[Topic]:
    """Return the urgent topics that any page follows, and leave the regions of the others for the next flush.

    A page that joins later asks for what it missed. Where nobody follows it is forgotten what was sent last, when
    something is told: whoever comes then begins with the newest entry. All of this is one question.
    """
    if not urgent and not later:
        return []
    dirty = [f"{topic}|{region}" for topic, regions in later.items() for region in regions]
    asked = [word for topic, regions in urgent.items() for word in _asked(topic, told=registry.CHRONICLE in regions)]
    topics = list(urgent)
    followed = _script()(keys=[DIRTY], args=[len(dirty), *dirty, *asked], client=client())
    return [topics[int(place)] for place in followed]


def _asked(topic: Topic, *, told: bool) -> tuple[str, str]:
    return f"{GROUPS}__group__{topic.group}", f"mw-live:sent:{topic}" if told else ""


@cache
def _script() -> Script:
    return client().register_script(_LEAVE)


def last_sent(topic: Topic) -> int | None:
    """Number of the newest chronicle entry that was sent to this topic."""
    value = client().get(f"mw-live:sent:{topic}")
    return None if value is None else int(str(value))


def remember_sent(topic: Topic, number: int) -> None:
    """Note what was sent. A race may lower it: pages drop entries that they have."""
    client().set(f"mw-live:sent:{topic}", number, ex=KEEP_S)


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
