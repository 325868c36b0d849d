"""Lease a reducer, feed it chunk by chunk until the log is read, give it back.

Runs and the fleet are swept alike: one worker at a time, one transaction per
chunk, and one more look when somebody knocked meanwhile.
"""

import logging
from collections.abc import Callable
from datetime import datetime

from controlplane.domain.errors import LeaseLost
from controlplane.runs import actions as runs
from controlplane.runs.machines import Held
from controlplane.runs.models import Run

log = logging.getLogger(__name__)

LEASE_S = 5.0
"""A dead worker keeps a run from being looked at no longer than this."""
CHUNK = 500
"""Events of one transaction."""
MAX_CHUNKS = 20
"""Chunks between two looks at the door; a longer backlog goes on at the next sweep."""


def sweep(name: str, owner: str, now: datetime, chunk: Callable[[Held], bool], *, run: Run | None = None) -> bool:
    """Call `chunk` until it has nothing more; False when another worker has the machine or took it over.

    `chunk` commits what it did itself and says whether more is waiting.
    """
    held = runs.lease_machine(name, owner, now, LEASE_S, run=run)
    if held is None:
        return False
    try:
        _until_quiet(held, chunk)
    except LeaseLost:
        log.warning("%s was taken over by another worker", name)
        return False
    except Exception:
        runs.release_machine(held)
        raise
    return True


def _until_quiet(held: Held, chunk: Callable[[Held], bool]) -> None:
    quiet = False
    while not quiet:
        for _ in range(MAX_CHUNKS):
            if not chunk(held):
                break
        quiet = runs.release_machine(held)
