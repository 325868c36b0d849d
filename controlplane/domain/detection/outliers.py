"""Find phases that nobody declared: steps that take long at a regular distance.

They are no hang, so the deadline of such a step is made from its kind; and the owner
is told that declaring the phase would give it a deadline of its own (methods 1).
"""

from itertools import pairwise
from statistics import median

from controlplane.domain.detection import steps
from controlplane.domain.detection.policy import RunPolicy
from controlplane.domain.detection.state import AttemptState, RunState

MIN_RATIO = 1.4
"""A step of so many medians is one of its own kind."""
MIN_SEEN = 3
MIN_PERIOD = 5
KEPT = 16


def note(state: RunState, attempt: AttemptState, step: int, policy: RunPolicy) -> None:
    """Keep a step that took far longer than usual and overlaps no declared phase."""
    held = attempt.samples.get(step)
    if held is None or step in state.outliers or attempt.first_step is None:
        return
    if step < attempt.first_step + policy.warmup_steps or len(held) != steps.PLAIN:
        return
    usual = median(sample[0] for sample in attempt.samples.values())
    if len(attempt.samples) >= policy.min_samples and held[0] >= MIN_RATIO * usual:
        state.outliers[step] = held[0]
        for old in sorted(state.outliers)[: max(0, len(state.outliers) - KEPT)]:
            del state.outliers[old]


def period(state: RunState) -> tuple[int, float] | None:
    """Give the distance in steps and the usual time in seconds of a regular outlier, None when there is none."""
    seen = sorted(state.outliers)[-MIN_SEEN:]
    gaps = [later - earlier for earlier, later in pairwise(seen)]
    if len(seen) < MIN_SEEN or min(gaps) < MIN_PERIOD or any(gap % min(gaps) for gap in gaps):
        return None
    return min(gaps), median(state.outliers[step] for step in seen)


def expected_s(state: RunState, step: int) -> float | None:
    """Give how long `step` is expected to take in seconds when it is one of the regular ones."""
    found = period(state)
    if found is None or (step - max(state.outliers)) % found[0]:
        return None
    return found[1]


def advice(state: RunState) -> str:
    """Give the sentence that suggests declaring the phase, "" when there is none."""
    found = period(state)
    if found is None:
        return ""
    return f"every {found[0]} steps one takes {found[1]:.4g} s; a declared phase would give it a deadline of its own"
