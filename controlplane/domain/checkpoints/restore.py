"""Which saved state a restart may use, and what a crash now would lose.

A checkpoint counts only when it is complete: its metadata present and every file of
the right length. The newest one is often torn, because the crash came while it was
written, so those passed over are named with the reason (D-09).
"""

from collections.abc import Iterable
from dataclasses import dataclass

RESTORABLE = frozenset({"complete", "verified", "restored", "pinned"})
"""States of the wire's `checkpoint` event from which a run may be restored."""

SECONDS_PER_HOUR = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A checkpoint as the ledger and the scan see it."""

    step: int
    path: str
    state: str
    tier: str = "persistent"
    why: str = ""
    suspect: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreChoice:
    """`step` 0 with an empty `path`: nothing usable, begin from the start."""

    step: int
    path: str
    tier: str
    why: str
    lost_steps: int
    skipped: tuple[tuple[int, str], ...]


def choose_restore_point(candidates: Iterable[Candidate], *, high_water: int) -> RestoreChoice:
    """Take the newest complete checkpoint; `high_water` is the furthest step ever reached.

    `skipped` holds (step, why) of every newer one that was passed over.
    """
    skipped: list[tuple[int, str]] = []
    for found in sorted(candidates, key=_newest_and_safest):
        reason = _unusable(found)
        if reason:
            skipped.append((found.step, reason))
            continue
        return _chosen(found, high_water, skipped)
    why = "no complete checkpoint exists"
    return RestoreChoice(step=0, path="", tier="", why=why, lost_steps=max(0, high_water), skipped=tuple(skipped))


def _newest_and_safest(found: Candidate) -> tuple[int, bool, str]:
    return (-found.step, found.state != "verified", found.path)


def _unusable(found: Candidate) -> str:
    if found.suspect:
        return found.why or "under suspicion"
    if found.state not in RESTORABLE:
        return found.why or {"saving": "still being written", "torn": "torn"}.get(found.state, found.state)
    return ""


def _chosen(found: Candidate, high_water: int, skipped: list[tuple[int, str]]) -> RestoreChoice:
    newer = tuple(item for item in skipped if item[0] > found.step)
    why = "newest complete one"
    if newer:
        why += "; passed over " + ", ".join(f"{step} ({reason})" for step, reason in newer)
    lost = max(0, high_water - found.step)
    return RestoreChoice(
        step=found.step, path=found.path, tier=found.tier, why=why, lost_steps=lost, skipped=tuple(skipped)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Exposure:
    """What a crash at this moment would lose."""

    steps: int
    seconds: float
    gpu_hours: float


def exposure(
    *, last_step: int, restore_step: int, captured_at: float | None, started_at: float, now: float, gpus: int
) -> Exposure:
    """Measure the work since the capture of the last durable checkpoint (methods 4).

    `captured_at` is when that state was taken, `started_at` when training began: it
    counts as long as nothing was saved. `gpu_hours` is GPUs times seconds / 3600.
    """
    since = started_at if captured_at is None else captured_at
    seconds = max(0.0, now - since)
    return Exposure(
        steps=max(0, last_step - restore_step), seconds=seconds, gpu_hours=gpus * seconds / SECONDS_PER_HOUR
    )
