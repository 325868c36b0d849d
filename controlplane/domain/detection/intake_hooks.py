"""Take in what the training hooks report: steps, windows and phases."""

from collections.abc import Mapping
from typing import Any

from controlplane.domain.detection import reading, steps
from controlplane.domain.detection.places import raise_high_water, rank_of
from controlplane.domain.detection.policy import RunPolicy
from controlplane.domain.detection.state import AttemptState, PhaseMark, RankState, RunState
from controlplane.domain.signals import Signal

LEARNED = 16


def step(state: RunState, signal: Signal, policy: RunPolicy) -> None:
    """Take in a step of a rank."""
    attempt, rank = state.attempt, rank_of(state, signal)
    step = reading.integer(signal.data, "step")
    if attempt is None or rank is None or step is None or step < 0:
        return
    state.instrumented = True
    newest = step > (attempt.last_step if attempt.last_step is not None else -1)
    if newest:
        _show(state, signal.data)
    raise_high_water(state, step, signal.received)
    steps.sample(attempt, rank, step, signal, policy)
    steps.advance(state, attempt, rank, step, signal)
    _close_phase_by_step(rank, signal)


def _show(state: RunState, data: Mapping[str, Any]) -> None:
    """Keep what the page shows of the newest step."""
    state.loss = reading.number(data, "loss")
    state.grad_norm = reading.number(data, "grad_norm")
    tokens, duration = reading.number(data, "tokens"), reading.number(data, "duration_ms")
    state.tokens_per_s = tokens * 1000 / duration if tokens is not None and duration else None


def _close_phase_by_step(rank: RankState, signal: Signal) -> None:
    """A whole step after a blocking phase's last word shows that its end was lost on the way."""
    phase = rank.phase
    began_ms = signal.at_ms - (reading.number(signal.data, "duration_ms") or 0.0)
    if phase.open and phase.name != "train" and began_ms >= phase.at_ms:
        phase.open, phase.at_ms, phase.at = False, signal.at_ms, signal.received


def window(state: RunState, signal: Signal, _policy: RunPolicy) -> None:
    """Take in a rank's medians over some steps."""
    rank = rank_of(state, signal)
    last = reading.integer(signal.data, "last_step")
    if rank is None or last is None or last < (rank.window_step or 0):
        return
    state.instrumented = True
    rank.window_step = last
    rank.compute_ms = reading.number(signal.data, "compute_ms")
    rank.wait_ms = reading.number(signal.data, "wait_ms")
    rank.data_ms = reading.number(signal.data, "data_ms")


def phase(state: RunState, signal: Signal, _policy: RunPolicy) -> None:
    """Take in the begin, a part or the end of a rank's phase."""
    rank = rank_of(state, signal)
    name, word = reading.text(signal.data, "phase"), reading.text(signal.data, "state")
    if rank is None or not name or word not in ("begin", "progress", "end"):
        return
    state.instrumented = True
    mark = rank.phase
    if signal.at_ms < mark.at_ms or (
        signal.at_ms == mark.at_ms and (name, word == "end") == (mark.name, not mark.open)
    ):
        return
    same = mark.open and mark.name == name
    if same and word != "begin":
        _learn(state, mark, signal, word)
    if word == "end":
        _close(state.attempt, mark, signal, name, same=same)
        return
    if not same or word == "begin":
        mark = rank.phase = PhaseMark(name=name, began_at=signal.received, began_ms=signal.at_ms)
    mark.open, mark.at, mark.at_ms = True, signal.received, signal.at_ms
    mark.parts += word == "progress"
    mark.deadline_s = reading.number(signal.data, "deadline_s") or mark.deadline_s


def _learn(state: RunState, mark: PhaseMark, signal: Signal, word: str) -> None:
    """Learn how long parts and whole phases take, from the sender's own clock."""
    part = (signal.at_ms - mark.at_ms) / 1000
    if word == "progress" or mark.parts:
        _append(state.parts, mark.name, part, steps.MAX_PARTS)
    if word == "end":
        _append(state.wholes, mark.name, (signal.at_ms - mark.began_ms) / 1000, LEARNED)


def _append(table: dict[str, list[float]], name: str, value: float, limit: int) -> None:
    if name in table or len(table) < LEARNED:
        table[name] = [*table.get(name, []), value][-limit:]


def _close(attempt: AttemptState | None, mark: PhaseMark, signal: Signal, name: str, *, same: bool) -> None:
    if attempt is not None and same and name != "train":
        attempt.intervals = [*attempt.intervals, [mark.began_ms, signal.at_ms]][-steps.MAX_INTERVALS :]
    mark.name, mark.open, mark.at, mark.at_ms = name, False, signal.received, signal.at_ms
