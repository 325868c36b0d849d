"""Hot state in Redis: when each node was last heard, where each run's last step stands.

Pages ask for this all the time and it changes with every batch, so it is kept
outside the truth: it tells what arrived, also while nobody has judged that yet. It
can be lost at any moment: what is not there is read from PostgreSQL and put back,
and while Redis is away PostgreSQL alone answers.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Any

import msgspec
import redis
from django.conf import settings
from django.db import connection
from redis.backoff import NoBackoff
from redis.retry import Retry

from controlplane.events import queries as events
from controlplane.fleet.models import Node

log = logging.getLogger(__name__)

TIMEOUT_S = 0.5

_SEEN = "SELECT node, max(last_seen_at) FROM events_stream WHERE node = ANY(%s) AND NOT superseded GROUP BY node"


@dataclass(frozen=True, slots=True)
class HotStep:
    """The last step of a run as it arrived."""

    attempt: int | None
    step: int
    received_at: datetime


def nodes_key() -> str:
    """Return where nodes stand; what another database's control plane keeps beside us says nothing of ours."""
    return f"mw:hot:{settings.DATABASES['default']['NAME']}:nodes"


def runs_key() -> str:
    """Return where runs stand."""
    return f"mw:hot:{settings.DATABASES['default']['NAME']}:runs"


def encode_seen(now: datetime) -> bytes:
    """Write a time of receipt (milliseconds since the epoch)."""
    return b"%d" % (now.timestamp() * 1000)


def encode_step(attempt: int | None, step: int, now: datetime) -> bytes:
    """Write a run's last step."""
    return msgspec.json.encode([attempt, step, int(now.timestamp() * 1000)])


def node_seen(names: Collection[str]) -> dict[str, datetime]:
    """Return when each node was last heard, by our clock; nodes never heard are left out."""
    return _through(nodes_key(), list(names), _time, _seen_from_log, encode_seen)


def heard(nodes: Iterable[Node]) -> list[Node]:
    """Return the nodes as read, each last seen when its last batch arrived; the watch writes that down later."""
    listed = list(nodes)
    seen = node_seen([node.name for node in listed])
    for node in listed:
        node.last_seen_at = max(filter(None, (node.last_seen_at, seen.get(node.name))), default=None)
    return listed


def run_step(run: str) -> HotStep | None:
    """Return a run's last step."""
    found = _through(runs_key(), [run], _step, _steps_from_log, lambda s: encode_step(s.attempt, s.step, s.received_at))
    return found.get(run)


def _through(
    key: str,
    names: list[str],
    decode: Callable[[bytes], Any],
    from_log: Callable[[list[str]], dict[str, Any]],
    encode: Callable[[Any], bytes],
) -> dict[str, Any]:
    """Read from Redis; what is missing there comes from PostgreSQL and is put back."""
    if not names:
        return {}
    hot = _read(key, names, decode)
    missing = [name for name in names if name not in hot]
    cold = from_log(missing) if missing else {}
    _write_back(key, {name: encode(value) for name, value in cold.items()})
    return {**cold, **hot}


def _read(key: str, names: list[str], decode: Callable[[bytes], Any]) -> dict[str, Any]:
    try:
        values: list[Any] = _client().hmget(key, names)
    except redis.RedisError as error:
        log.debug("hot state is away: %s", error)
        return {}
    return {name: decode(value) for name, value in zip(names, values, strict=True) if value is not None}


def _write_back(key: str, values: Mapping[str, bytes]) -> None:
    """Put back what is still missing, in one go; a newer value that came meanwhile stays."""
    if not values:
        return
    try:
        with _client().pipeline(transaction=False) as pipe:
            for name, value in values.items():
                pipe.hsetnx(key, name, value)
            pipe.execute()
    except redis.RedisError as error:
        log.debug("hot state is away: %s", error)


def _time(value: bytes) -> datetime:
    return datetime.fromtimestamp(int(value) / 1000, UTC)


def _step(value: bytes) -> HotStep:
    attempt, step, at = msgspec.json.decode(value)
    return HotStep(attempt, step, datetime.fromtimestamp(at / 1000, UTC))


def _seen_from_log(names: list[str]) -> dict[str, datetime]:
    with connection.cursor() as cursor:
        cursor.execute(_SEEN, [names])
        return dict(cursor.fetchall())


def _steps_from_log(runs: list[str]) -> dict[str, HotStep]:
    newest = {run: events.latest("rank.step", run=run) for run in runs}
    return {
        run: HotStep(event.attempt, event.data["step"], event.received_at) for run, event in newest.items() if event
    }


@cache
def _client() -> redis.Redis:
    """Ask once: a page must not wait for a server that is away."""
    once = Retry(NoBackoff(), 0)
    return redis.Redis.from_url(
        settings.REDIS_URL, socket_timeout=TIMEOUT_S, socket_connect_timeout=TIMEOUT_S, retry=once
    )
