"""What a fault cost: computed from what was measured, never typed (C-03)."""

from dataclasses import dataclass

SECONDS_PER_HOUR = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class Losses:
    """`confidence` is measured, bounded (at least this much, still running) or unknown."""

    steps: int
    seconds: float
    gpu_hours: float
    confidence: str

    def as_facts(self) -> dict[str, float | int | str]:
        """Give the numbers as stored with an incident."""
        return {
            "steps": self.steps,
            "seconds": round(self.seconds, 3),
            "gpu_hours": round(self.gpu_hours, 6),
            "confidence": self.confidence,
        }


def losses(
    *,
    last_step: int | None,
    restore_step: int | None,
    last_progress_at: float | None,
    caught_up_at: float | None,
    now: float,
    gpus: int,
) -> Losses:
    """Cost of one fault.

    Steps are those between the restore point and the last step before the fault: they
    have to be made twice. Seconds run from the last progress to the first step beyond the
    old high-water step (`caught_up_at`), or to `now` while that has not come; both in
    seconds since the epoch. GPU-hours are those seconds on all `gpus`.
    """
    if last_progress_at is None:
        return Losses(steps=0, seconds=0.0, gpu_hours=0.0, confidence="unknown")
    steps = max(0, last_step - restore_step) if last_step is not None and restore_step is not None else 0
    seconds = max(0.0, (now if caught_up_at is None else caught_up_at) - last_progress_at)
    whole = caught_up_at is not None and last_step is not None and restore_step is not None
    hours = gpus * seconds / SECONDS_PER_HOUR
    return Losses(steps=steps, seconds=seconds, gpu_hours=hours, confidence="measured" if whole else "bounded")
