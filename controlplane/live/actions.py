"""Tell open pages that something changed, once its transaction is committed."""

import logging
import time

import redis
from django.db import transaction

from controlplane.live import publish, registry, store, topics
from controlplane.live.topics import Topic

log = logging.getLogger(__name__)


class _Touch:
    """One commit hook for a topic; later touches of the same transaction join it."""

    def __init__(self, topic: Topic, region: str, *, urgent: bool) -> None:
        self.topic = topic
        self.urgent = urgent
        self.regions = {region}

    def __call__(self) -> None:
        if self.urgent:
            publish.publish(self.topic, self.regions, now_ms())
            return
        try:
            store.mark_dirty(self.topic, self.regions)
        except (redis.RedisError, OSError) as trouble:
            log.warning("live update of %s was not noted: %s", self.topic, trouble)


def touch(topic: str, *, region: str = registry.STATE, urgent: bool = True) -> None:
    """Render a region of a topic after the commit and send it to open pages.

    Not urgent: joined with others and sent at most once a second. A topic that no
    page can follow is ignored, so a caller may touch whatever stream it writes.
    """
    name, _, subject = topic.partition(":")
    if not registry.knows(name):
        return
    _touch(topics.parse(topic) if subject else Topic(name), region, urgent=urgent)
    if region == registry.STATE:
        for other in registry.companions(name):
            _touch(Topic(other), region, urgent=urgent)


def _touch(topic: Topic, region: str, *, urgent: bool) -> None:
    waiting = _waiting(topic, urgent=urgent)
    if waiting is None:
        transaction.on_commit(_Touch(topic, region, urgent=urgent), robust=True)
    else:
        waiting.regions.add(region)


def _waiting(topic: Topic, *, urgent: bool) -> _Touch | None:
    """Find the hook of this topic that commits or rolls back together with the current block."""
    connection = transaction.get_connection()
    here = set(connection.savepoint_ids)
    for savepoints, hook, *_ in connection.run_on_commit:
        if isinstance(hook, _Touch) and savepoints == here and (hook.topic, hook.urgent) == (topic, urgent):
            return hook
    return None


def flush(now: int) -> int:
    """Send everything that was marked since the last flush; `now` in milliseconds since the epoch.

    Returns how many topics were sent. Also beats, so that pages know that workers live.
    """
    store.beat(now)
    sent = 0
    for name, regions in store.take_dirty().items():
        sent += publish.publish(topics.parse(name), regions, now)
    return sent


def now_ms() -> int:
    """Read the clock; what is rendered carries its own times."""
    return time.time_ns() // 1_000_000
