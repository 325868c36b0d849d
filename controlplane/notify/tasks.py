"""What beat calls each second: plan what is due, and hand messages to the senders."""

from datetime import UTC, datetime
from functools import partial

from celery import shared_task

from controlplane.notify import planning, sending
from controlplane.notify.sender import sender


def _now() -> datetime:
    return datetime.now(UTC)


@shared_task
def tend() -> None:
    """Turn calls into messages and send what is due; waits for no receiver."""
    planning.plan(_now())
    senders = sender()
    for message_id in sending.due(_now(), senders.free):
        senders.hand_over(f"message {message_id}", partial(sending.send, message_id, _now))
