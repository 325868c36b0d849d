"""The strip of a run's time: every instant in one cause, told by colour, pattern and words."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from controlplane.domain.accounting.intervals import Label, Span
from controlplane.domain.chronicle.words import duration

WIDTH = 1000.0
THINNEST = 0.6
"""Pieces thinner than this cannot be seen; they join their neighbour in the picture, not in the table."""

CAUSES: dict[Label, tuple[str, str]] = {
    Label.TRAIN_SAFE: ("train", "training, saved"),
    Label.TRAIN_AT_RISK: ("risk", "training, not saved yet"),
    Label.TRAIN_LOST: ("lost", "work made twice"),
    Label.SAVE_BLOCKING: ("save", "saving"),
    Label.EVAL: ("save", "evaluation"),
    Label.WARMUP: ("start", "starting up"),
    Label.RESTORE: ("start", "restoring"),
    Label.REPLACE: ("start", "choosing nodes and launching"),
    Label.DETECT: ("down", "not noticed yet"),
    Label.DIAGNOSE: ("down", "stopping and deciding"),
    Label.WAIT_APPROVAL: ("wait", "waiting for a person"),
    Label.WAIT_CAPACITY: ("wait", "waiting for a node"),
    Label.OUTAGE: ("outage", "outage of the platform"),
    Label.IDLE: ("idle", "unattributed"),
}
"""How each label looks (a class of the style sheet) and what it is called."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A piece of the strip, in units of `WIDTH`."""

    x: float
    width: float
    cause: str
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One line of the legend: what the time of the window went into."""

    cause: str
    words: str
    time: str
    share: str


def pieces(spans: Sequence[Span], begin: int, end: int) -> list[Piece]:
    """Place the spans of an account, which cover [begin, end) milliseconds, side by side."""
    scale = WIDTH / max(1, end - begin)
    placed: list[Piece] = []
    edge = 0.0
    for span in spans:
        cause, words = CAUSES[span.label]
        right = round((span.end - begin) * scale, 2)
        if right - edge < THINNEST and span is not spans[-1]:
            continue
        title = f"{words}, {duration((span.end - span.begin) / 1000)}"
        placed.append(Piece(x=edge, width=round(right - edge, 2), cause=cause, title=title))
        edge = right
    return placed


def parts(by_label_ms: dict[Label, int], elapsed_ms: int) -> list[Part]:
    """List what the window went into, most first; labels of no time are left out."""
    spent = sorted(((ms, label) for label, ms in by_label_ms.items() if ms), key=lambda pair: -pair[0])
    return [
        Part(
            cause=CAUSES[label][0],
            words=CAUSES[label][1],
            time=duration(ms / 1000),
            share=f"{100 * ms / elapsed_ms:.1f} %" if elapsed_ms else "–",
        )
        for ms, label in spent
    ]


def spoken(lines: Iterable[Part]) -> str:
    """Say the strip in one sentence, for those who do not see it."""
    return ", ".join(f"{line.words} {line.share}" for line in lines) or "nothing recorded yet"
