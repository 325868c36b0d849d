"""What Celery calls: replay what people asked for, one at a time, and give up what a killed worker left."""

from datetime import UTC, datetime

from celery import shared_task

from controlplane.replay import rerun as reruns

EXPIRES_S = 10.0
"""Beat asks again after as long."""


def _now() -> datetime:
    return datetime.now(UTC)


@shared_task(acks_late=False)
def rerun(rerun_id: int) -> None:
    """Carry one rerun out, unless it has begun.

    Acknowledged before it begins: it takes longer than the broker waits, and a second
    worker must not take it for lost.
    """
    row = reruns.claim(int(rerun_id), _now())
    if row is None:
        return
    reruns.finish(row, reruns.perform(row), _now())
    _begin_next()


@shared_task
def tend() -> None:
    """Give up what is stuck, and begin what waits: its message may have been lost."""
    reruns.give_up_stuck(_now())
    _begin_next()


def _begin_next() -> None:
    waiting = reruns.next_waiting()
    if waiting is not None:
        rerun.apply_async((waiting,), expires=EXPIRES_S)
