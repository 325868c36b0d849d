"""Give every millisecond of a run exactly one label (methods 5).

Sources overlap: a restore happens during an outage, detection goes on while spares are
awaited. A fixed order decides, so the parts always add up to the whole and no cause is
counted twice. All bounds are integer milliseconds, `end` exclusive.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise


class Label(StrEnum):
    """What time was spent on, the strongest first."""

    OUTAGE = "outage"
    WAIT_CAPACITY = "wait_capacity"
    WAIT_APPROVAL = "wait_approval"
    DETECT = "detect"
    DIAGNOSE = "diagnose"
    REPLACE = "replace"
    RESTORE = "restore"
    WARMUP = "warmup"
    SAVE_BLOCKING = "save_blocking"
    EVAL = "eval"
    TRAIN_LOST = "train_lost"
    TRAIN_AT_RISK = "train_at_risk"
    TRAIN_SAFE = "train_safe"
    IDLE = "idle"


PRIORITY = {label: place for place, label in enumerate(Label)}
PRODUCTIVE = frozenset({Label.TRAIN_SAFE, Label.TRAIN_AT_RISK})


@dataclass(frozen=True, slots=True)
class Span:
    """A source's claim that [begin, end) was spent on `label`."""

    begin: int
    end: int
    label: Label


def partition(spans: Iterable[Span], begin: int, end: int) -> list[Span]:
    """Split the window [begin, end) into spans that neither overlap nor leave a gap.

    Where several claims overlap the first label in order wins; where there is none the
    time is idle. Neighbours with the same label are joined. Claims that are empty, turned
    round or outside the window count for nothing.
    """
    edges: dict[int, list[tuple[Label, int]]] = {begin: [], end: []}
    for span in set(spans):
        first, last = max(span.begin, begin), min(span.end, end)
        if first < last:
            edges.setdefault(first, []).append((span.label, 1))
            edges.setdefault(last, []).append((span.label, -1))
    return _joined(edges) if begin < end else []


def _joined(edges: dict[int, list[tuple[Label, int]]]) -> list[Span]:
    """Walk over the edges with a count of open claims per label."""
    open_claims = dict.fromkeys(Label, 0)
    parts: list[Span] = []
    points = sorted(edges)
    for at, following in pairwise(points):
        for label, change in edges[at]:
            open_claims[label] += change
        label = next((label for label in Label if open_claims[label]), Label.IDLE)
        if parts and parts[-1].label is label:
            parts[-1] = Span(parts[-1].begin, following, label)
        else:
            parts.append(Span(at, following, label))
    return parts


def totals(spans: Iterable[Span], begin: int, end: int) -> dict[Label, int]:
    """Milliseconds per label in [begin, end); they add up to its length exactly."""
    sums = dict.fromkeys(Label, 0)
    for part in partition(spans, begin, end):
        sums[part.label] += part.end - part.begin
    return sums
