"""The states of an execution and of its steps, and what a failed step leads to.

The table is data, so the engine's compare-and-set, the page and the tests agree on
which move exists. Deciding is pure: the engine only carries the decision out.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from controlplane.domain.errors import Conflict
from controlplane.domain.recovery.runbook import StepSpec

ALLOWED: Mapping[str, frozenset[str]] = {
    "proposed": frozenset({"running", "rejected", "stopped"}),
    "running": frozenset({"proposed", "waiting", "paused", "undoing", "succeeded", "failed", "stopped"}),
    "waiting": frozenset({"proposed", "running", "paused", "undoing", "succeeded", "failed", "stopped"}),
    "paused": frozenset({"running", "undoing", "stopped"}),
    "undoing": frozenset({"undone", "stopped"}),
    "succeeded": frozenset({"undoing"}),
    "failed": frozenset({"undoing"}),
    "stopped": frozenset({"undoing"}),
    "rejected": frozenset(),
    "undone": frozenset(),
}

FINAL = frozenset({"succeeded", "failed", "stopped", "rejected", "undone"})
"""States in which an execution does nothing; only a person's undo wakes it again."""
UNDOABLE = frozenset(state for state, later in ALLOWED.items() if "undoing" in later)

STEP_ALLOWED: Mapping[str, frozenset[str]] = {
    "intended": frozenset({"waiting", "done", "skipped", "failed", "undone"}),
    "waiting": frozenset({"done", "skipped", "failed", "undone"}),
    "done": frozenset(),
    "skipped": frozenset(),
    "failed": frozenset(),
    "undone": frozenset(),
}

RETRY_PAUSE_S = 1.0
RETRY_PAUSE_CAP_S = 30.0


def check(old: str, new: str) -> None:
    """Raise `Conflict` unless an execution may go from `old` to `new`."""
    if new not in ALLOWED.get(old, frozenset()):
        raise Conflict(f"an execution cannot go from {old} to {new}")


def check_step(old: str, new: str) -> None:
    """Raise `Conflict` unless a step may go from `old` to `new`."""
    if new not in STEP_ALLOWED.get(old, frozenset()):
        raise Conflict(f"a step cannot go from {old} to {new}")


class After(StrEnum):
    """What follows a step that did not succeed."""

    RETRY = "retry"
    SKIP = "skip"
    GIVE_UP = "give_up"


@dataclass(frozen=True, slots=True)
class Verdict:
    """`at` is when a retry may begin, in seconds since the epoch."""

    after: After
    at: float
    why: str


def after_failure(spec: StepSpec, *, try_number: int, why: str, now: float, retry: bool = True) -> Verdict:
    """Decide what follows when try `try_number` (from 1) of a step failed with `why`.

    `retry` false says that trying again cannot help.
    """
    if retry and try_number <= spec.retries:
        pause = min(RETRY_PAUSE_CAP_S, RETRY_PAUSE_S * 2.0 ** (try_number - 1))
        return Verdict(After.RETRY, now + pause, why)
    return Verdict(After.SKIP if spec.optional else After.GIVE_UP, now, why)
