"""Take in what the training hooks report of phases, and learn how long they take.

An event of a phase is progress only when it shows more done or more bytes than
before: a process that repeats the same number is alive and stands still.
"""

from controlplane.domain.detection import reading, steps
from controlplane.domain.detection.places import rank_of
from controlplane.domain.detection.policy import RunPolicy
from controlplane.domain.detection.state import PhaseMark, RankState, RunState
from controlplane.domain.signals import Signal

LEARNED = 16
MAX_NAMES = 16
RESTORE = "restore"


def phase(state: RunState, signal: Signal, policy: RunPolicy) -> None:
    """Take in the begin, a part or the end of a rank's phase."""
    rank = rank_of(state, signal)
    name, word = reading.text(signal.data, "phase"), reading.text(signal.data, "state")
    if rank is None or not name or word not in ("begin", "progress", "end"):
        return
    state.instrumented = True
    if _is_old(rank.phase, signal, name, word):
        return
    if word == "end":
        _end(state, rank.phase, signal, name)
    else:
        _go_on(state, rank, signal, policy)


def _is_old(mark: PhaseMark, signal: Signal, name: str, word: str) -> bool:
    """Say whether a newer event of the rank is known, or just this one."""
    if signal.at_ms != mark.at_ms:
        return signal.at_ms < mark.at_ms
    repeats = (name, word == "end") == (mark.name, not mark.open)
    return repeats and not (word == "progress" and _gained(mark, signal))


def _go_on(state: RunState, rank: RankState, signal: Signal, policy: RunPolicy) -> None:
    name, word = reading.text(signal.data, "phase"), reading.text(signal.data, "state")
    mark = rank.phase
    if word == "begin" or not (mark.open and mark.name == name):
        mark = rank.phase = _begun(signal, name)
    elif _moved(state, mark, signal, policy):
        _learn_part(state, mark, signal)
        mark.moved_at, mark.moved_ms = signal.received, signal.at_ms
        mark.moved_bytes = reading.number(signal.data, "bytes") or mark.moved_bytes
        mark.parts += 1
    mark.open, mark.at, mark.at_ms = True, signal.received, signal.at_ms
    mark.deadline_s = reading.number(signal.data, "deadline_s") or mark.deadline_s
    _count(mark, signal)


def _begun(signal: Signal, name: str) -> PhaseMark:
    at, at_ms = signal.received, signal.at_ms
    return PhaseMark(name=name, began_at=at, began_ms=at_ms, moved_at=at, moved_ms=at_ms)


def _count(mark: PhaseMark, signal: Signal) -> None:
    """Keep the highest counts seen."""
    done, size = reading.number(signal.data, "done"), reading.number(signal.data, "bytes")
    mark.done = done if mark.done is None else max(mark.done, mark.done if done is None else done)
    mark.bytes = size if mark.bytes is None else max(mark.bytes, mark.bytes if size is None else size)
    mark.total = reading.number(signal.data, "total") or mark.total
    mark.unit = reading.text(signal.data, "unit")[:20] or mark.unit


def _gained(mark: PhaseMark, signal: Signal) -> bool:
    """Say whether an event shows more than was known."""
    return any(
        value is not None and value > (known or 0.0)
        for value, known in (
            (reading.number(signal.data, "done"), mark.done),
            (reading.number(signal.data, "bytes"), mark.bytes),
        )
    )


def _moved(state: RunState, mark: PhaseMark, signal: Signal, policy: RunPolicy) -> bool:
    """Say whether an event is progress; one without any count is, except in a restore (methods 1)."""
    size = reading.number(signal.data, "bytes")
    if size is None and reading.number(signal.data, "done") is None:
        return mark.name != RESTORE
    if mark.name == RESTORE and size is not None:
        return size > mark.moved_bytes and not _crawls(state, mark, signal.received, size, policy)
    return _gained(mark, signal)


def _crawls(state: RunState, mark: PhaseMark, at: float, size: float, policy: RunPolicy) -> bool:
    """Say whether the bytes since the last progress came at less than a tenth of the usual rate."""
    usual, elapsed_s = steps.middle(state.rates.get(mark.name, [])), at - mark.moved_at
    return elapsed_s > 0 and size - mark.moved_bytes < policy.restore_slow_share * usual * elapsed_s


def _learn_part(state: RunState, mark: PhaseMark, signal: Signal) -> None:
    _append(state.parts, mark.name, (signal.at_ms - mark.moved_ms) / 1000, steps.MAX_PARTS)


def _end(state: RunState, mark: PhaseMark, signal: Signal, name: str) -> None:
    if mark.open and mark.name == name:
        _learn(state, mark, signal)
        if state.attempt is not None and name != "train":
            steps.declare(state.attempt, mark.began_ms, signal.at_ms)
        _count(mark, signal)
    else:
        mark.began_at, mark.began_ms = signal.received, signal.at_ms
        mark.moved_at, mark.moved_ms = signal.received, signal.at_ms
    mark.name, mark.open, mark.at, mark.at_ms = name, False, signal.received, signal.at_ms


def _learn(state: RunState, mark: PhaseMark, signal: Signal) -> None:
    """Learn how long the last part and the whole took, by the sender's own clock."""
    if mark.parts:
        _learn_part(state, mark, signal)
    whole_s = (signal.at_ms - mark.began_ms) / 1000
    _append(state.wholes, mark.name, whole_s, LEARNED)
    size = reading.number(signal.data, "bytes") or mark.bytes
    if size and whole_s > 0:
        _append(state.rates, mark.name, size / whole_s, LEARNED)


def _append(table: dict[str, list[float]], name: str, value: float, limit: int) -> None:
    if name in table or len(table) < MAX_NAMES:
        table[name] = [*table.get(name, []), value][-limit:]
