"""How fast the run steps, and how far it came.

Step times are kept per step number, so a repeated or late event changes nothing.
A step counts for the median unless it belongs to the warm-up of its attempt or
overlaps a declared phase; times of earlier attempts of the same size stay valid.
"""

from collections.abc import Sequence
from statistics import median

from controlplane.domain.detection import reading
from controlplane.domain.detection.policy import RunPolicy
from controlplane.domain.detection.state import AttemptState, RankState, RunState
from controlplane.domain.signals import Signal

MAX_PARTS = 128
MAX_INTERVALS = 64
SPARE_SAMPLES = 64
PLAIN = 2
"""Fields of a sample, seconds and when it ended (ms); one that overlaps a declared phase has a third."""


def sample(attempt: AttemptState, rank: RankState, step: int, signal: Signal, policy: RunPolicy) -> bool:
    """Keep the time of a step, once per step number; say whether it was new."""
    duration_ms = reading.number(signal.data, "duration_ms")
    if duration_ms is None and rank.step == step - 1 and rank.step_ms >= 0:
        duration_ms = float(signal.at_ms - rank.step_ms)
    if duration_ms is None or duration_ms <= 0 or step in attempt.samples:
        return False
    held = [duration_ms / 1000, float(signal.at_ms)]
    attempt.samples[step] = [*held, 1.0] if overlaps(attempt, *held) else held
    room = policy.window + SPARE_SAMPLES
    if len(attempt.samples) > room + SPARE_SAMPLES:
        newest = sorted(attempt.samples)[-room:]
        attempt.samples = {number: attempt.samples[number] for number in newest}
    return True


def advance(state: RunState, attempt: AttemptState, rank: RankState, step: int, signal: Signal) -> None:
    """Move the rank, and the run when its slowest reporting rank has moved (methods 1).

    A step counter that goes back by the rank's own clock is a restart inside the
    attempt: a sign of life, and told as a rewind (methods 11.4).
    """
    rewound = rank.step is not None and step < rank.step and signal.at_ms > rank.step_ms
    if attempt.first_step is not None:
        attempt.first_step = min(attempt.first_step, step)
    if rank.step is not None and step <= rank.step and not rewound:
        return
    if rewound and _speaks_for_run(attempt, rank):
        _rewind(attempt, rank, step, signal.received)
    rank.step, rank.step_at, rank.step_ms = step, signal.received, signal.at_ms
    if attempt.first_step is None:
        _first(state, attempt, signal.received)
        attempt.first_step, attempt.first_at = step, signal.received
    attempt.last_step = step if rewound else max(step, attempt.last_step or 0)
    slowest = min(other.step for other in attempt.ranks.values() if other.step is not None)
    if rewound or attempt.progress_step is None or slowest > attempt.progress_step:
        attempt.progress_at = max(attempt.progress_at, signal.received)
    attempt.progress_step = slowest


def _speaks_for_run(attempt: AttemptState, rank: RankState) -> bool:
    """Say whether `rank` is the lowest that reports steps: one restart is counted once."""
    first = min(number for number, other in attempt.ranks.items() if other.step is not None)
    return attempt.ranks[first] is rank


def _rewind(attempt: AttemptState, rank: RankState, step: int, at: float) -> None:
    """Count a restart inside the attempt and the steps that are made again from `step` on."""
    attempt.rewinds, attempt.rewound_at = attempt.rewinds + 1, at
    attempt.rewound_steps += (rank.step or 0) - step + 1


def _first(state: RunState, attempt: AttemptState, at: float) -> None:
    state.wholes["first step"] = [*state.wholes.get("first step", []), at - attempt.began_at][-5:]


def accepted(attempt: AttemptState, policy: RunPolicy) -> list[float]:
    """Give the last step times of this attempt that count, oldest first."""
    if attempt.first_step is None:
        return []
    begin, samples = attempt.first_step + policy.warmup_steps, attempt.samples
    counted = [step for step in sorted(samples) if step >= begin and len(samples[step]) == PLAIN]
    return [samples[step][0] for step in counted[-policy.window :]]


def declare(attempt: AttemptState, began_ms: int, ended_ms: int) -> None:
    """Take in that a phase lasted from `began_ms` to `ended_ms` by the trainer's clock; steps in it do not count."""
    attempt.intervals = [*attempt.intervals, [began_ms, ended_ms]][-MAX_INTERVALS:]
    for held in attempt.samples.values():
        if len(held) == PLAIN and began_ms < held[1] and ended_ms > held[1] - held[0] * 1000:
            held.append(1.0)


def overlaps(attempt: AttemptState, duration: float, at_ms: float) -> bool:
    """Say whether a step that ended at `at_ms` shares time with a declared phase."""
    began_ms = at_ms - duration * 1000
    return any(begin < at_ms and end > began_ms for begin, end in attempt.intervals)


def middle(values: Sequence[float]) -> float:
    """Give the median, 0 when there is none."""
    return median(values) if values else 0.0


def baseline(state: RunState, policy: RunPolicy) -> list[float]:
    """Give the last step times that count for the run at its present size, in seconds."""
    attempt = state.attempt
    if attempt is None:
        return state.history[-policy.window :]
    resized = bool(attempt.world_size and state.history_world and attempt.world_size != state.history_world)
    earlier = [] if resized else state.history
    return [*earlier, *accepted(attempt, policy)][-policy.window :]


def median_step_s(state: RunState, policy: RunPolicy) -> float | None:
    """Give the median step time in seconds, None before the first counted step."""
    times = baseline(state, policy)
    return median(times) if times else None


def remember(state: RunState, policy: RunPolicy) -> None:
    """Carry the counted step times of the attempt over to the next one."""
    attempt = state.attempt
    if attempt is None:
        return
    state.history = baseline(state, policy)
    state.history_world = attempt.world_size or state.history_world
