"""How much of a run's time became training that lasts (methods 5).

A step counts once, the last time it was made: what a rollback threw away was lost the
first time. Work beyond the newest durable checkpoint is productive but at risk, and
is shown apart. Reports carry an as-of time; later news only moves the split.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from controlplane.domain.accounting.intervals import PRODUCTIVE, Label, Span, totals

MS_PER_HOUR = 3_600_000


@dataclass(frozen=True, slots=True)
class Step:
    """One step as it was made: its number and when, in integer milliseconds."""

    number: int
    begin: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptWork:
    """The steps of one attempt; `resume_step` is the step that it was restored from."""

    number: int
    resume_step: int
    steps: Sequence[Step]


@dataclass(frozen=True, slots=True, kw_only=True)
class Goodput:
    """The account of a window; milliseconds per label add up to `elapsed_ms`."""

    elapsed_ms: int
    by_label_ms: dict[Label, int]
    lost_steps: int

    @property
    def safe(self) -> float:
        """Share of the time that became work behind a durable checkpoint."""
        return self._share(frozenset({Label.TRAIN_SAFE}))

    @property
    def productive(self) -> float:
        """Share of the time that trains, work at risk included."""
        return self._share(PRODUCTIVE)

    def lost_gpu_hours(self, gpus: int) -> float:
        """GPU-hours that did not train."""
        spent = sum(ms for label, ms in self.by_label_ms.items() if label not in PRODUCTIVE)
        return gpus * spent / MS_PER_HOUR

    def _share(self, labels: frozenset[Label]) -> float:
        if not self.elapsed_ms:
            return 0.0
        return sum(self.by_label_ms[label] for label in labels) / self.elapsed_ms


def label_steps(attempts: Iterable[AttemptWork], *, durable_step: int) -> list[Span]:
    """Label each step as safe, at risk or lost.

    A step is lost when a later attempt began below it, or when the counter went back
    below it inside its own attempt (a hidden restart, methods 11.4); else safe when a
    durable checkpoint at or after it exists (`durable_step` is the newest), else at risk.
    """
    spans: list[Span] = []
    floor: int | None = None
    for attempt in sorted(attempts, key=lambda item: -item.number):
        spans += _labelled(_once(attempt.steps), floor, durable_step)
        floor = attempt.resume_step if floor is None else min(floor, attempt.resume_step)
    return spans


def _labelled(made: Sequence[Step], floor: int | None, durable_step: int) -> list[Span]:
    """Label one attempt's steps from the last to the first: what comes again later was lost before."""
    spans: list[Span] = []
    again: int | None = None
    for step in reversed(made):
        lost = again is not None and step.number >= again
        label = Label.TRAIN_LOST if lost else _label(step.number, floor, durable_step)
        spans.append(Span(step.begin, step.end, label))
        again = step.number if again is None else min(again, step.number)
    return spans


def _once(steps: Iterable[Step]) -> list[Step]:
    """Drop repeats of the same event; a step number made twice keeps both times."""
    return sorted(set(steps), key=lambda step: (step.end, step.number))


def _label(number: int, floor: int | None, durable_step: int) -> Label:
    if floor is not None and number > floor:
        return Label.TRAIN_LOST
    return Label.TRAIN_SAFE if number <= durable_step else Label.TRAIN_AT_RISK


def goodput(
    attempts: Sequence[AttemptWork], *, begin: int, end: int, durable_step: int, other: Iterable[Span] = ()
) -> Goodput:
    """Account for the window [begin, end) in integer milliseconds.

    `other` are the claims of everything that is no step: outages, detection, restores.
    """
    steps = label_steps(attempts, durable_step=durable_step)
    lost = sum(span.label is Label.TRAIN_LOST and begin <= span.begin < end for span in steps)
    return Goodput(elapsed_ms=max(0, end - begin), by_label_ms=totals([*steps, *other], begin, end), lost_steps=lost)
