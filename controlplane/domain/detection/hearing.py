"""Judge how well a node is heard (D-19, methods 7 and 11.16).

A clock that is off, a reader that reads nothing, a log with a hole: each takes the
meaning from a node's stamps or from its silence, and must be known before anything
is concluded from them.
"""

from statistics import median

from controlplane.domain.detection import reading
from controlplane.domain.detection.hearing_state import Hearing
from controlplane.domain.signals import Signal

SAMPLES = 16
SAMPLE_EVERY_S = 15.0
"""A clock drifts slowly: four minutes of every third heartbeat are enough, and small to store."""
MIN_SAMPLES = 6
MAX_LAG_S = 10.0
"""A heartbeat that waited in its spool says nothing about the clock."""
TOLD_LAG_S = 60.0
"""Events that wait longer than this at their node are late."""
LOG_LATENCY_S = 1.0
"""How late a line of the kernel's log is stamped and read (methods 7, part of B)."""
NO_READ_S = 60.0
"""Methods 11.16: a reader that has read nothing for so long is deaf."""
GAP_S = 900.0
"""A hole in a log takes the meaning from its silence for the window of attribution (methods 7)."""
MAX_SOURCES = 32
FLOOD_LINES = 1_000
"""Log lines of one node in one minute that nobody can have meant."""

KINDS = frozenset({"node.heartbeat", "node.log"})


def take(heard: Hearing, signal: Signal) -> None:
    """Write down what a heartbeat or a log line says about our hearing; an old heartbeat says nothing any more."""
    if signal.kind == "node.heartbeat" and signal.at_ms > heard.beat_ms:
        heard.beat_ms = signal.at_ms
        _readers(heard, signal)
        _spool(heard, signal)
        _sample(heard, signal)
    elif signal.kind == "node.log":
        _log(heard, signal)


def skew(heard: Hearing) -> tuple[float, float] | None:
    """Give how far the node's clock is ahead of ours and how far that may be off, in seconds; None while unknown."""
    if len(heard.offsets_ms) < MIN_SAMPLES:
        return None
    middle = median(heard.offsets_ms)
    spread = max(abs(value - middle) for value in heard.offsets_ms)
    return -middle / 1000, spread / 1000 + LOG_LATENCY_S


def deaf(heard: Hearing, source: str, now: float) -> bool:
    """Say whether the silence of `source` means nothing at `now` (methods 11.16)."""
    gap = heard.gaps.get(source)
    return source in heard.deaf or (gap is not None and now - gap < GAP_S)


def _readers(heard: Hearing, signal: Signal) -> None:
    readers = reading.mapping(signal.data, "readers")
    for name in list(readers)[:MAX_SOURCES]:
        said = reading.mapping(readers, name)
        age = reading.number(said, "last_read_age_s")
        if said.get("ok") is False or (age is not None and age >= NO_READ_S):
            heard.deaf.setdefault(name[: reading.MAX_TEXT], signal.received - (age or 0.0))
        else:
            heard.deaf.pop(name[: reading.MAX_TEXT], None)
    for name in list(heard.deaf)[MAX_SOURCES:]:
        del heard.deaf[name]


def _spool(heard: Hearing, signal: Signal) -> None:
    heard.lag_s = (reading.number(signal.data, "lag_ms") or 0.0) / 1000
    if heard.lag_s < TOLD_LAG_S:
        heard.lagging_since = None
    elif heard.lagging_since is None:
        heard.lagging_since = signal.received
    dropped = reading.integer(reading.mapping(signal.data, "spool"), "dropped") or 0
    if dropped > heard.dropped:
        heard.dropped_at = signal.received
    heard.dropped = dropped


def _sample(heard: Hearing, signal: Signal) -> None:
    early = len(heard.offsets_ms) < MIN_SAMPLES
    due = early or signal.at_ms - heard.sampled_ms >= SAMPLE_EVERY_S * 1000
    if heard.lag_s > MAX_LAG_S or not due:
        return
    heard.sampled_ms = signal.at_ms
    heard.offsets_ms.append(round(signal.received * 1000) - signal.at_ms)
    del heard.offsets_ms[:-SAMPLES]


def _log(heard: Hearing, signal: Signal) -> None:
    source = reading.text(signal.data, "source")
    if signal.data.get("gap") is True and (source in heard.gaps or len(heard.gaps) < MAX_SOURCES):
        heard.gaps[source] = signal.received
    minute = int(signal.received // 60)
    heard.lines = heard.lines + 1 if minute == heard.minute else 1
    heard.minute = minute
    if heard.lines >= FLOOD_LINES:
        heard.flood_at = signal.received
