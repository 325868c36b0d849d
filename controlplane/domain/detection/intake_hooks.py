"""Take in what the training hooks report of steps: steps, windows, what was resumed, what was saved."""

import math
from collections.abc import Mapping
from typing import Any

from controlplane.domain.detection import leaps, outliers, reading, steps
from controlplane.domain.detection.places import raise_high_water, rank_of
from controlplane.domain.detection.policy import RunPolicy
from controlplane.domain.detection.state import RankState, RunState
from controlplane.domain.signals import Signal

SAVING = frozenset({"saving", "written", "complete", "verified"})


def step(state: RunState, signal: Signal, policy: RunPolicy) -> None:
    """Take in a step of a rank."""
    attempt, rank = state.attempt, rank_of(state, signal)
    step = reading.integer(signal.data, "step")
    if attempt is None or rank is None or step is None or step < 0:
        return
    state.instrumented = True
    if leaps.refused(state, attempt, step, signal.received, policy):
        return
    if step > (attempt.last_step if attempt.last_step is not None else -1):
        _show(state, signal.data)
    raise_high_water(state, step, signal.received)
    if steps.sample(attempt, rank, step, signal, policy):
        outliers.note(state, attempt, step, policy)
    steps.advance(state, attempt, rank, step, signal)
    _close_phase_by_step(rank, signal)


def _show(state: RunState, data: Mapping[str, Any]) -> None:
    """Keep what the page shows of the newest step."""
    state.loss = reading.number(data, "loss")
    state.grad_norm = reading.number(data, "grad_norm")
    tokens, duration = reading.number(data, "tokens"), reading.number(data, "duration_ms")
    speed = tokens * 1000 / duration if tokens is not None and duration else math.nan
    state.tokens_per_s = speed if math.isfinite(speed) else None


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


def checkpoint(state: RunState, signal: Signal, _policy: RunPolicy) -> None:
    """Take a save that a rank reports as a sign that it is at work: it stands between two steps."""
    attempt = state.attempt
    if attempt is None or signal.rank is None or reading.text(signal.data, "state") not in SAVING:
        return
    if signal.at_ms > attempt.saved_ms:
        attempt.saved_ms, attempt.saved_at = signal.at_ms, signal.received
