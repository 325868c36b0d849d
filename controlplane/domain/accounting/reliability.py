"""How often a run is interrupted and how long each interruption takes, always with n (methods 5)."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from controlplane.domain.accounting.claims import AttemptFacts
from controlplane.domain.accounting.goodput import Step


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean of `n` measured values in milliseconds; None of none."""

    ms: float | None
    n: int

    @classmethod
    def of(cls, values: Sequence[int]) -> "Mean":
        """Average what was measured."""
        return cls(sum(values) / len(values) if values else None, len(values))


@dataclass(frozen=True, slots=True, kw_only=True)
class Reliability:
    """MTBF over running time; `detect`, `resume` and `caught_up` from the last progress on.

    `planned` counts the stops that a person or a notice asked for; they are no interruptions.
    """

    running_ms: int
    interruptions: int
    planned: int
    mtbf: Mean
    detect: Mean
    resume: Mean
    caught_up: Mean


def reliability(attempts: Sequence[AttemptFacts]) -> Reliability:
    """Measure the interruptions of a run; a counter that went back inside an attempt is one more (methods 11.4)."""
    ordered = sorted(attempts, key=lambda item: item.work.number)
    running = sum(_running(item) for item in ordered)
    hidden = sum(_rewinds(item.work.steps) for item in ordered)
    broken = [(place, item) for place, item in enumerate(ordered) if item.trouble is not None and not item.planned]
    count = len(broken) + hidden
    later = [(item, ordered[place + 1 :]) for place, item in broken]
    return Reliability(
        running_ms=running,
        interruptions=count,
        planned=sum(item.planned for item in ordered),
        mtbf=Mean(running / count if count else None, count),
        detect=Mean.of([
            item.trouble.found - item.trouble.began
            for _, item in broken
            if item.trouble is not None and item.trouble.found is not None
        ]),
        resume=Mean.of([value for item, rest in later if (value := _until(item, rest, beyond=False)) is not None]),
        caught_up=Mean.of([value for item, rest in later if (value := _until(item, rest, beyond=True)) is not None]),
    )  # fmt: skip


def _running(attempt: AttemptFacts) -> int:
    steps = attempt.work.steps
    return max(step.end for step in steps) - min(step.begin for step in steps) if steps else 0


def _rewinds(steps: Sequence[Step]) -> int:
    numbers = [step.number for step in sorted(set(steps), key=lambda step: (step.end, step.number))]
    return sum(later < earlier for earlier, later in pairwise(numbers))


def _until(attempt: AttemptFacts, rest: Sequence[AttemptFacts], *, beyond: bool) -> int | None:
    """Milliseconds from the last progress to the next attempt's first step, or the first beyond all before."""
    last = max(attempt.work.steps, key=lambda step: step.end, default=None)
    if last is None:
        return None
    highest = max(step.number for step in attempt.work.steps)
    wanted = [step.end for item in rest for step in item.work.steps if not beyond or step.number > highest]
    return min(wanted) - last.end if wanted else None
