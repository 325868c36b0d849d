"""What beat asks for, and how often.

Each message expires after a few periods, so the backlog of an outage is
dropped instead of replayed: the next one finds all that there is to do. What is done in a
moment shares one message, since a message costs more than the look that it asks for.
"""

from celery.schedules import schedule

SWEEP_S = 1.0
HOUSEKEEPING_S = 60.0
RECONCILE_S = 60.0
RERUNS_S = 10.0
PERIODS_TO_EXPIRY = 3


def _every(task: str, seconds: float) -> dict[str, object]:
    options = {"expires": seconds * PERIODS_TO_EXPIRY}
    return {"task": task, "schedule": schedule(seconds), "options": options}


BEAT_SCHEDULE = {
    "each-second": _every("controlplane.watch.tasks.each_second", SWEEP_S),
    "sweep-fleet": _every("controlplane.watch.tasks.sweep_fleet", SWEEP_S),
    "advance-due": _every("controlplane.watch.tasks.advance_due", SWEEP_S),
    "reconcile": _every("controlplane.watch.tasks.reconcile", RECONCILE_S),
    "housekeeping": _every("controlplane.watch.tasks.housekeeping", HOUSEKEEPING_S),
    "tend-reruns": _every("controlplane.replay.tasks.tend", RERUNS_S),
}
