"""What the time of an attempt and of the trouble after it was spent on (methods 5).

Each function turns facts into claims; `intervals.partition` settles where claims
overlap. All times are integer milliseconds since the epoch.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from controlplane.domain.accounting.goodput import AttemptWork
from controlplane.domain.accounting.intervals import Label, Span

PHASES = {"restore": Label.RESTORE, "save": Label.SAVE_BLOCKING, "eval": Label.EVAL}


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """A declared phase; `end` None while its end was not reported."""

    name: str
    begin: int
    end: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """What ended an attempt: when it began and was found, and what was waited for until the next.

    `acting` is when nodes were chosen for the next attempt; `outage` says that no part
    of the run but the platform was at fault; nothing is claimed after `over`.
    """

    began: int
    found: int | None = None
    over: int | None = None
    outage: bool = False
    acting: int | None = None
    approvals: Sequence[tuple[int, int | None]] = ()
    capacity: Sequence[tuple[int, int | None]] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptFacts:
    """One attempt: `began` is when it was seen to start, `ended` None while it lives.

    `stepped` is when its first step ended, known also where its steps are no longer on record.

    `planned` marks an end that a person or a notice asked for.
    """

    work: AttemptWork
    began: int
    ended: int | None = None
    stepped: int | None = None
    phases: Sequence[Phase] = ()
    trouble: Trouble | None = None
    planned: bool = False


def claims(attempts: Sequence[AttemptFacts], *, until: int) -> list[Span]:
    """Give the claims of everything that is no step, up to `until`.

    What a trouble claims is cut where steps were made: a suspicion over a step that
    came in the end took nothing from training.
    """
    ordered = sorted(attempts, key=lambda item: item.work.number)
    busy = merged((step.begin, step.end) for item in ordered for step in item.work.steps)
    spans: list[Span] = []
    for place, attempt in enumerate(ordered):
        spans += _phases(attempt, until)
        spans += outside(_warmup(attempt, until), busy)
        if attempt.trouble is not None:
            following = [item.began for item in ordered[place + 1 :]]
            spans += outside(_of_trouble(attempt.trouble, min([until, *following[:1]])), busy)
    return spans


def _phases(attempt: AttemptFacts, until: int) -> list[Span]:
    close = until if attempt.ended is None else attempt.ended
    return [
        Span(phase.begin, close if phase.end is None else phase.end, PHASES[phase.name])
        for phase in attempt.phases
        if phase.name in PHASES
    ]


def _warmup(attempt: AttemptFacts, until: int) -> list[Span]:
    """Give the time up to the end of the first step, less what a step usually takes."""
    steps = attempt.work.steps
    if not steps:
        known = [moment for moment in (attempt.stepped, attempt.ended, until) if moment is not None]
        return [Span(attempt.began, min(known), Label.WARMUP)]
    usual = round(median(step.end - step.begin for step in steps))
    return [Span(attempt.began, min(step.end for step in steps) - usual, Label.WARMUP)]


def _of_trouble(trouble: Trouble, close: int) -> list[Span]:
    close = close if trouble.over is None else min(close, trouble.over)
    found = close if trouble.found is None else min(trouble.found, close)
    spans = [Span(trouble.began, found, Label.DETECT), Span(found, close, Label.DIAGNOSE)]
    if trouble.acting is not None:
        spans = [Span(trouble.began, found, Label.DETECT), Span(found, trouble.acting, Label.DIAGNOSE)]
        spans.append(Span(max(found, trouble.acting), close, Label.REPLACE))
    if trouble.outage:
        spans.append(Span(trouble.began, close, Label.OUTAGE))
    spans += [Span(begin, close if end is None else end, Label.WAIT_APPROVAL) for begin, end in trouble.approvals]
    spans += [Span(begin, close if end is None else end, Label.WAIT_CAPACITY) for begin, end in trouble.capacity]
    return [Span(span.begin, min(span.end, close), span.label) for span in spans if span.begin < min(span.end, close)]


def merged(pieces: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Join overlapping and touching [begin, end) pieces, in order."""
    joined: list[tuple[int, int]] = []
    for begin, end in sorted(pieces):
        if joined and begin <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((begin, end))
    return joined


def outside(spans: Iterable[Span], busy: Sequence[tuple[int, int]]) -> list[Span]:
    """Cut `busy` (merged) out of `spans`."""
    holes = pairwise([(0, 0), *busy, (2**62, 2**62)])
    free = [(before[1], after[0]) for before, after in holes if before[1] < after[0]]
    return [
        Span(max(span.begin, begin), min(span.end, end), span.label)
        for span in spans
        for begin, end in free
        if max(span.begin, begin) < min(span.end, end)
    ]
