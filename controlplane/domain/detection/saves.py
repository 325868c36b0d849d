"""Which steps are durable, as the trainer and the directory watcher report them.

Only what judges launches needs this: progress that a restart can build on is a
checkpoint that is complete, and new is one that lies above all earlier ones.
"""

from controlplane.domain.detection import reading
from controlplane.domain.detection.policy import RunPolicy
from controlplane.domain.detection.saves_state import Saved
from controlplane.domain.detection.state import RunState
from controlplane.domain.signals import Signal

DURABLE = frozenset({"complete", "verified", "pinned"})
LOST = frozenset({"torn", "failed", "deleted"})
VOLATILE = "memory"
MAX_STEPS = 64


def take(state: RunState, signal: Signal, _policy: RunPolicy) -> None:
    """Take in what an event says of one checkpoint; the newest word by the sender's clock counts."""
    step, word = reading.integer(signal.data, "step"), reading.text(signal.data, "state")
    if step is None or step < 0 or word not in DURABLE | LOST or reading.text(signal.data, "tier") == VOLATILE:
        return
    known = state.saves.steps
    number = _attempt(state, signal)
    saved = known.setdefault(step, Saved(attempt=number))
    saved.attempt = min(saved.attempt, number)
    if signal.at_ms >= saved.at_ms:
        saved.good, saved.at_ms = word in DURABLE, signal.at_ms
    for old in sorted(known)[: max(0, len(known) - MAX_STEPS)]:
        del known[old]


def _attempt(state: RunState, signal: Signal) -> int:
    if signal.attempt is not None:
        return signal.attempt
    return state.attempt.number if state.attempt else 0


def newest(state: RunState, *, up_to: int | None = None) -> int | None:
    """Give the newest durable step, or the newest that an attempt up to that number had saved."""
    good = (
        step for step, saved in state.saves.steps.items() if saved.good and (up_to is None or saved.attempt <= up_to)
    )
    return max(good, default=None)


def progressed_since(state: RunState, attempt: int) -> bool:
    """Say whether a later attempt has saved a step beyond all that were durable up to that attempt."""
    best = newest(state, up_to=attempt)
    latest = newest(state)
    return latest is not None and (best is None or latest > best)
