"""Catching up by plain HTTP: after a reconnect, and by polling while the socket is down.

The channel layer delivers at most once and forgets. Nothing that it lost
matters, because a page asks here for the current fragments and for every
chronicle entry after the last one that it knows.
"""

from typing import Any

import redis
from django.http import HttpRequest, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from controlplane.domain.errors import Forbidden, NotFound
from controlplane.live import publish, pulse, registry, store, topics
from controlplane.live.topics import Topic


@never_cache
@require_GET
def resync(request: HttpRequest) -> JsonResponse:
    """Answer `{"messages": [envelope…], "age_s": …}` for the topics of a page."""
    wanted = topics.parse_list(request.GET.get("topics", ""))
    since = topics.parse_since(request.GET.getlist("since"))
    for topic in wanted:
        if not registry.may_follow(request.user, topic.kind, topic.subject):
            raise Forbidden(f"following {topic} needs the role viewer")
    messages = [message for topic in wanted for message in _current(topic, since.get(str(topic), 0))]
    reading = pulse.take()
    return JsonResponse({"messages": messages, "ok": reading.ok, "age_s": reading.age_s})


def _current(topic: Topic, known: int) -> list[dict[str, Any]]:
    """Render everything of one topic."""
    if not registry.knows(topic.kind):
        return []
    version = _version(topic)
    try:
        fragment = registry.render(topic.kind, topic.subject, registry.REGIONS, known)
    except NotFound:
        return []
    return publish.pack(topic, fragment, version)


def _version(topic: Topic) -> int:
    """Number of the last rendering, read before the database; 0, which always counts as new, without Redis."""
    try:
        return store.current_version(topic)
    except (redis.RedisError, OSError):
        return 0
