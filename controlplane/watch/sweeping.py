"""Lease a reducer, feed it chunk by chunk until the log is read, give it back.

Runs and the fleet are swept alike: one worker at a time, one transaction per
chunk. Who was knocked at meanwhile, or has more to read, says so and is called
again with a fresh clock; age and silence are never judged by an old one.
"""

import logging
from collections.abc import Callable
from datetime import datetime

from controlplane.domain.errors import LeaseLost
from controlplane.runs import actions as runs
from controlplane.runs.leases import Look
from controlplane.runs.machines import Held
from controlplane.runs.models import Run

log = logging.getLogger(__name__)

LEASE_S = 5.0
"""A dead worker keeps a run from being looked at no longer than this."""
CHUNK = 500
"""Events of one transaction."""
MAX_CHUNKS = 20
"""Chunks of one sweep; a longer backlog goes on at the next."""


def sweep(name: str, owner: str, now: datetime, chunk: Callable[[Held], bool], *, run: Run | None = None) -> Look:
    """Call `chunk` until it has nothing more, or long enough.

    `chunk` commits what it did itself and says whether more is waiting.
    """
    held = runs.lease_machine(name, owner, now, LEASE_S, run=run)
    if held is None:
        return Look.TAKEN
    try:
        more = all(chunk(held) for _ in range(MAX_CHUNKS))
    except LeaseLost:
        log.warning("%s was taken over by another worker", name)
        return Look.TAKEN
    except Exception:
        runs.release_machine(held)
        raise
    return Look.DONE if runs.release_machine(held) and not more else Look.AGAIN
