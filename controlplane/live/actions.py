"""Tell open pages that something changed, once its transaction is committed."""

import time

from django.db import transaction

from controlplane.live import publish, registry, store, topics
from controlplane.live.topics import Topic


class _Touches:
    """One commit hook for all that is touched in a transaction, or in a block that may be rolled back alone."""

    def __init__(self) -> None:
        self.urgent: dict[Topic, set[str]] = {}
        self.later: dict[Topic, set[str]] = {}

    def send(self) -> None:
        """Send what is urgent and note the rest; the transaction is committed by now."""
        publish.publish(self.urgent, now_ms(), later=self.later)


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
    waiting = _waiting()
    touches = waiting or _Touches()
    (touches.urgent if urgent else touches.later).setdefault(topic, set()).add(region)
    if waiting is None:
        transaction.on_commit(touches.send, robust=True)


def _waiting() -> _Touches | None:
    """Find the hook that commits or rolls back together with the current block."""
    connection = transaction.get_connection()
    here = set(connection.savepoint_ids)
    for savepoints, hook, *_ in connection.run_on_commit:
        touches = getattr(hook, "__self__", None)
        if isinstance(touches, _Touches) and savepoints == here:
            return touches
    return None


def flush(now: int) -> int:
    """Send everything that was marked since the last flush; `now` in milliseconds since the epoch.

    Returns how many topics were sent. Also beats, so that pages know that workers live.
    """
    store.beat(now)
    return publish.publish({topics.parse(name): regions for name, regions in store.take_dirty().items()}, now)


def now_ms() -> int:
    """Read the clock; what is rendered carries its own times."""
    return time.time_ns() // 1_000_000
