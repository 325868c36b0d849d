"""Find numerical trouble: a spike that does not heal, a loss that is no number, a slow drift (methods 10).

A spike is watched first, because many heal by themselves and a rollback costs hours;
a loss that is no number never does. Hyper-parameters are never changed from here.
"""

import re
from collections.abc import Mapping
from typing import Any

from controlplane.domain.detection import loss_steps, loss_words, reading
from controlplane.domain.detection.loss_state import LossState, Point, Watch
from controlplane.domain.detection.policy import RunPolicy
from controlplane.domain.detection.state import MAX_RANKS, AttemptState, RunState
from controlplane.domain.findings import Finding, Stage
from controlplane.domain.signals import Signal

KINDS = frozenset({"attempt.started", "rank.step", "rank.log"})
MAX_SUPPORTS = 32
MAX_LINE = 2_000
MAX_STEP = 2**53
NOT_FINITE = frozenset({"nan", "inf", "-inf", "+inf", "infinity", "-infinity"})
SAYS_NOT_FINITE = re.compile(
    r"\b(?:loss|grad\w*|activation\w*)\b[^\n]{0,40}\b(?:nan|inf|infinite|non-?finite)\b"
    r"|\b(?:nan|non-?finite)\b[^\n]{0,40}\b(?:loss|grad\w*|activation\w*)\b",
    re.IGNORECASE,
)


def take(state: RunState, signal: Signal, policy: RunPolicy) -> None:
    """Take in a step, what the attempt supports, or a rank's own word of a loss that is no number."""
    attempt = state.attempt
    if attempt is None or signal.run != state.run or signal.attempt not in (None, attempt.number):
        return
    if state.numbers.attempt != attempt.number:
        state.numbers = loss_steps.begin(state.numbers, attempt.number)
    if signal.kind == "attempt.started":
        state.numbers.supports = reading.names(signal.data, "supports", MAX_SUPPORTS)
    elif signal.rank is not None and 0 <= signal.rank < MAX_RANKS:
        _of_rank(state, attempt, signal, signal.rank, policy)


def _of_rank(state: RunState, attempt: AttemptState, signal: Signal, rank: int, policy: RunPolicy) -> None:
    if signal.kind == "rank.step":
        _step(state, attempt, signal, rank, policy)
    elif SAYS_NOT_FINITE.search(str(signal.data.get("text", ""))[:MAX_LINE]):
        state.numbers.said_broken[rank] = signal.received


def _step(state: RunState, attempt: AttemptState, signal: Signal, rank: int, policy: RunPolicy) -> None:
    """Line a step up; the lowest rank that reports speaks for all, the others only for themselves."""
    numbers, point = state.numbers, _point(signal)
    if point is None:
        return
    _testimony(numbers, rank, point)
    if numbers.reporter is not None and rank > numbers.reporter:
        if point.broken:
            loss_steps.other_broken(numbers, point, policy)
        return
    numbers.reporter = rank
    if numbers.last_step is not None and point.step <= numbers.last_step:
        if point.step == numbers.last_step or point.at_ms <= numbers.last_ms:
            return
        numbers = state.numbers = loss_steps.begin_again(numbers, point)
        numbers.reporter = rank
    if numbers.last_step is None:
        loss_steps.resumed(numbers, point.step - 1 if attempt.resume_step is None else attempt.resume_step)
    numbers.waiting.setdefault(point.step, point)
    loss_steps.release(numbers, policy, point.at, _expected(attempt))


def _expected(attempt: AttemptState) -> int | None:
    return None if attempt.resume_step is None else attempt.resume_step + 1


def _testimony(numbers: LossState, rank: int, point: Point) -> None:
    """Note which ranks saw a number and which did not."""
    if point.broken:
        numbers.broken_steps[rank] = min(point.step, numbers.broken_steps.get(rank, point.step))
    elif point.loss is not None:
        numbers.finite_steps[rank] = max(point.step, numbers.finite_steps.get(rank, 0))
        if point.step > numbers.broken_steps.get(rank, point.step):
            del numbers.broken_steps[rank]


def _point(signal: Signal) -> Point | None:
    step = reading.integer(signal.data, "step")
    if step is None or not 0 <= step <= MAX_STEP:
        return None
    return Point(
        step=step,
        at=signal.received,
        at_ms=signal.at_ms,
        loss=reading.number(signal.data, "loss"),
        grad=_grad(signal.data),
        scale=reading.number(signal.data, "loss_scale"),
        skipped=signal.data.get("skipped") is True,
        broken=not_finite(signal.data, "loss"),
    )


def _grad(data: Mapping[str, Any]) -> float | None:
    """Give the gradient norm; one that overflowed stands above every other."""
    return float(2**60) if not_finite(data, "grad_norm") else reading.number(data, "grad_norm")


def not_finite(data: Mapping[str, Any], name: str) -> bool:
    """Say whether a value was measured and was no finite number ("nan", "inf" or "-inf" on the wire)."""
    value = data.get(name)
    if isinstance(value, float):
        return reading.number(data, name) is None
    return isinstance(value, str) and value[:16].strip().lower() in NOT_FINITE


def look(state: RunState, policy: RunPolicy, now: float) -> list[Finding]:
    """Give what holds of the run's numbers; what is over is told once."""
    attempt, numbers = state.live, state.numbers
    if attempt is None or numbers.attempt != attempt.number:
        return []
    loss_steps.release(numbers, policy, now, _expected(attempt))
    trouble = numbers.trouble
    if trouble.stage == Stage.SUSPECT and trouble.confirm_at is not None and now >= trouble.confirm_at:
        trouble.stage, trouble.at = Stage.CONFIRMED.value, trouble.confirm_at
    watches = [*numbers.past, *(watch for watch in (trouble, numbers.drift, numbers.below) if watch.stage)]
    found = [loss_words.finding(state, attempt, watch, policy) for watch in watches]
    _forget(numbers)
    return found


def _forget(numbers: LossState) -> None:
    numbers.past = []
    if numbers.trouble.stage == Stage.CLEARED:
        numbers.trouble = Watch()
    if numbers.drift.stage == Stage.CLEARED:
        numbers.drift = Watch()
    if numbers.below.stage == Stage.CLEARED:
        numbers.below = Watch()


def due(state: RunState, policy: RunPolicy, now: float) -> float | None:
    """Give when a step stops waiting for the ones before it, or a doubt has had its time."""
    numbers = state.numbers
    if state.live is None:
        return None
    moments = [numbers.waiting[min(numbers.waiting)].at + policy.loss_reorder_s] if numbers.waiting else []
    if numbers.trouble.stage == Stage.SUSPECT and numbers.trouble.confirm_at is not None:
        moments.append(numbers.trouble.confirm_at)
    return min((moment for moment in moments if moment > now), default=None)
