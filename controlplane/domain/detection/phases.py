"""How long the run may go without progress just now, and since when it has.

A declared phase replaces the deadline of a training step, it never removes it: a
phase whose end does not come is itself the alarm (methods 1).
"""

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

from controlplane.domain.detection import steps
from controlplane.domain.detection.policy import RunPolicy
from controlplane.domain.detection.state import AttemptState, RankState, RunState

MIN_PARTS = 3
WHOLE_MEDIANS = 3
EVAL_MEDIANS = 2
EARLY_STEPS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """What is waited for: overdue when `now - since` reaches `deadline_s`.

    `expected_s` is what it usually takes; trouble begins when that is over.
    """

    what: str
    since: float
    deadline_s: float
    expected_s: float = 0.0

    def age(self, now: float) -> float:
        """Seconds without progress."""
        return now - self.since

    def overdue(self, now: float) -> bool:
        """Say whether the deadline has come."""
        return self.age(now) >= self.deadline_s


def clock(state: RunState, policy: RunPolicy, now: float) -> Clock | None:
    """Choose what the run is waited for at the moment; None when nothing is."""
    attempt = state.live
    if attempt is None:
        return None
    leader = _leader(attempt)
    if leader is not None and leader.phase.open and leader.phase.name != "train":
        return _phase_clock(state, attempt, leader, policy)
    if attempt.progress_step is not None:
        return _step_clock(state, attempt, leader, policy, now)
    if state.instrumented and attempt.ranks:
        return _first_step_clock(state, attempt, policy)
    if attempt.announced and not attempt.ranks:
        return Clock(what="launch", since=attempt.began_at, deadline_s=policy.launch_deadline_s)
    return None


def step_deadline_s(state: RunState, policy: RunPolicy, now: float) -> float:
    """Give D of methods 1 for a training step, in seconds."""
    return _step_deadline_s(state, steps.baseline(state, policy), policy, now)


def _step_deadline_s(state: RunState, times: list[float], policy: RunPolicy, now: float) -> float:
    if len(times) < policy.min_samples:
        return max(policy.early_deadline_s, EARLY_STEPS * (policy.declared_step_s or 0.0))
    return _scaled(median(times), factor_k(state, policy, now), policy.hang_floor_s, policy)


def factor_k(state: RunState, policy: RunPolicy, now: float) -> float:
    """Give the factor k as learned from false suspicions; it falls back over the decay time."""
    raised = state.hang.k
    if raised is None or raised <= policy.hang_k:
        return policy.hang_k
    left = max(0.0, 1 - (now - state.hang.k_raised_at) / policy.hang_k_decay_s)
    return policy.hang_k + (raised - policy.hang_k) * left


def _scaled(middle: float, k: float, floor_s: float, policy: RunPolicy) -> float:
    return min(max(k * middle, floor_s), max(policy.hang_cap_s, floor_s)) - min(policy.delta_s, floor_s / 2)


def _leader(attempt: AttemptState) -> RankState | None:
    """Give the lowest rank that reports phases or steps."""
    speaking = [number for number, rank in attempt.ranks.items() if rank.step is not None or rank.phase.name]
    return attempt.ranks[min(speaking)] if speaking else None


def _step_clock(
    state: RunState, attempt: AttemptState, leader: RankState | None, policy: RunPolicy, now: float
) -> Clock:
    since = max(attempt.progress_at, leader.phase.at if leader else 0.0)
    times = steps.baseline(state, policy)
    expected = median(times) if times else policy.declared_step_s or 0.0
    deadline_s = _step_deadline_s(state, times, policy, now)
    return Clock(what="step", since=since, deadline_s=deadline_s, expected_s=expected)


def _first_step_clock(state: RunState, attempt: AttemptState, policy: RunPolicy) -> Clock:
    since = max([attempt.began_at, *(rank.phase.at for rank in attempt.ranks.values())])
    usual = _median(state.wholes.get("first step", []))
    budget = max(policy.first_step_floor_s, WHOLE_MEDIANS * usual)
    return Clock(what="first step", since=since, deadline_s=min(policy.first_step_cap_s, budget))


def _phase_clock(state: RunState, attempt: AttemptState, leader: RankState, policy: RunPolicy) -> Clock:
    mark = leader.phase
    if mark.deadline_s is not None:
        return Clock(what=mark.name, since=mark.began_at, deadline_s=mark.deadline_s)
    deadline_s = BUDGETS.get(mark.name, _idle)(state, leader, policy)
    return Clock(what=mark.name, since=_entered(attempt, mark.name, deadline_s), deadline_s=deadline_s)


def _entered(attempt: AttemptState, name: str, deadline_s: float) -> float:
    """The clock starts when the last rank has entered, or a deadline after the first (methods 11.20)."""
    entries = [rank.phase.at for rank in attempt.ranks.values() if rank.phase.open and rank.phase.name == name]
    return min(max(entries), min(entries) + deadline_s)


def _median(values: list[float]) -> float:
    return median(values) if values else 0.0


def _init(_state: RunState, _leader: RankState, policy: RunPolicy) -> float:
    return policy.init_deadline_s


def _restore(state: RunState, leader: RankState, policy: RunPolicy) -> float:
    if leader.phase.parts:
        return policy.restore_quiet_s
    return max(policy.restore_floor_s, WHOLE_MEDIANS * _median(state.wholes.get("restore", [])))


def _compile(state: RunState, _leader: RankState, policy: RunPolicy) -> float:
    budget = max(policy.first_step_floor_s, WHOLE_MEDIANS * _median(state.wholes.get("compile", [])))
    return min(policy.first_step_cap_s, budget)


def _save(state: RunState, _leader: RankState, policy: RunPolicy) -> float:
    return max(policy.save_floor_s, WHOLE_MEDIANS * _median(state.wholes.get("save", [])))


def _eval(state: RunState, _leader: RankState, policy: RunPolicy) -> float:
    parts = state.parts.get("eval", [])
    if len(parts) >= MIN_PARTS:
        return _scaled(median(parts), policy.hang_k, policy.eval_part_floor_s, policy)
    wholes = state.wholes.get("eval", [])
    return max(policy.eval_floor_s, EVAL_MEDIANS * median(wholes) if wholes else policy.hang_cap_s)


def _idle(_state: RunState, _leader: RankState, policy: RunPolicy) -> float:
    return policy.idle_deadline_s


BUDGETS: dict[str, Callable[[RunState, RankState, RunPolicy], float]] = {
    "init": _init,
    "rendezvous": _init,
    "restore": _restore,
    "compile": _compile,
    "save": _save,
    "eval": _eval,
    "drain": _idle,
    "idle": _idle,
}
