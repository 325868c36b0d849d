"""The heartbeat of the live layer."""

import logging

import redis
from celery import shared_task

from controlplane.live import actions

log = logging.getLogger(__name__)


@shared_task
def flush() -> None:
    """Send what was touched without haste during the last second."""
    try:
        actions.flush(actions.now_ms())
    except redis.RedisError as trouble:
        log.warning("nothing was flushed: %s", trouble)
