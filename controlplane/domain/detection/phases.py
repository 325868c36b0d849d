"""How long the run may go without progress just now, and since when it has.

A declared phase replaces the deadline of a training step, it never removes it: a
phase whose end does not come is itself the alarm (methods 1).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from controlplane.domain.detection import outliers, steps
from controlplane.domain.detection.policy import RunPolicy
from controlplane.domain.detection.state import AttemptState, PhaseMark, RankState, RunState
from controlplane.domain.detection.steps import middle

MIN_PARTS = 3
WHOLE_MEDIANS = 3
EVAL_MEDIANS = 2
EARLY_STEPS = 10
GATHERING = ("init", "rendezvous", "restore")
"""Phases that all ranks go through together before the first step, in their order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """What is waited for: overdue when `now - since` reaches `deadline_s`.

    `expected_s` is what it usually takes; trouble begins when that is over.
    `spread_s` is how far apart the ranks entered the phase.
    """

    what: str
    since: float
    deadline_s: float
    expected_s: float = 0.0
    spread_s: float = 0.0

    @property
    def due(self) -> float:
        """Give the moment of the deadline, seconds since the epoch."""
        return self.since + self.deadline_s

    def overdue(self, now: float) -> bool:
        """Say whether the deadline has come."""
        return now >= self.due


def clock(state: RunState, policy: RunPolicy, now: float) -> Clock | None:
    """Choose what the run is waited for at the moment; None when nothing is."""
    attempt = state.live
    if attempt is None:
        return None
    leader = _leader(attempt)
    if attempt.progress_step is None:
        return _gathering_clock(state, attempt, leader, policy) or _before_steps(state, attempt, leader, policy)
    if leader is not None and _in_phase(leader):
        return _phase_clock(state, attempt, leader.phase, policy)
    return _step_clock(state, attempt, leader, policy, now)


def _before_steps(state: RunState, attempt: AttemptState, leader: RankState | None, policy: RunPolicy) -> Clock | None:
    if leader is not None and _in_phase(leader):
        return _phase_clock(state, attempt, leader.phase, policy)
    if state.instrumented and attempt.ranks:
        return _first_step_clock(state, attempt, policy)
    if attempt.announced and not attempt.ranks:
        return _launch_clock(state, attempt, policy)
    return None


def _in_phase(rank: RankState) -> bool:
    return rank.phase.open and rank.phase.name != "train"


def step_deadline_s(state: RunState, policy: RunPolicy, now: float) -> float:
    """Give D of methods 1 for the next training step, in seconds."""
    return _step_deadline_s(state, steps.baseline(state, policy), policy, now)


def _step_deadline_s(state: RunState, times: list[float], policy: RunPolicy, now: float) -> float:
    if len(times) < policy.min_samples:
        return max(policy.early_deadline_s, EARLY_STEPS * (policy.declared_step_s or 0.0))
    usual_s = _regular_s(state) or median(times)
    return _scaled(usual_s, factor_k(state, policy, now), policy.hang_floor_s, policy)


def _regular_s(state: RunState) -> float | None:
    """Give how long the next step takes if it is one of those that take long at a regular distance."""
    attempt = state.attempt
    if attempt is None or attempt.progress_step is None:
        return None
    return outliers.expected_s(state, attempt.progress_step + 1)


def factor_k(state: RunState, policy: RunPolicy, now: float) -> float:
    """Give the factor k as learned from false suspicions; it falls back over the decay time."""
    raised = state.hang.k
    if raised is None or raised <= policy.hang_k:
        return policy.hang_k
    left = max(0.0, 1 - (now - state.hang.k_raised_at) / policy.hang_k_decay_s)
    return policy.hang_k + (raised - policy.hang_k) * left


def _scaled(usual_s: float, k: float, floor_s: float, policy: RunPolicy) -> float:
    return min(max(k * usual_s, floor_s), max(policy.hang_cap_s, floor_s)) - min(policy.delta_s, floor_s / 2)


def _leader(attempt: AttemptState) -> RankState | None:
    """Give the lowest rank that reports phases or steps."""
    speaking = [number for number, rank in attempt.ranks.items() if rank.step is not None or rank.phase.name]
    return attempt.ranks[min(speaking)] if speaking else None


def _step_clock(
    state: RunState, attempt: AttemptState, leader: RankState | None, policy: RunPolicy, now: float
) -> Clock:
    since = max(attempt.progress_at, leader.phase.at if leader else 0.0)
    times = steps.baseline(state, policy)
    expected_s = _regular_s(state) or middle(times) or policy.declared_step_s or 0.0
    deadline_s = _step_deadline_s(state, times, policy, now)
    return Clock(what="step", since=_after_save(attempt, since, policy), deadline_s=deadline_s, expected_s=expected_s)


def _after_save(attempt: AttemptState, since: float, policy: RunPolicy) -> float:
    """A save that is reported after the last step delays the next one, by no more than a save may last."""
    return max(since, min(attempt.saved_at, since + policy.save_floor_s))


def _first_step_clock(state: RunState, attempt: AttemptState, policy: RunPolicy) -> Clock:
    since = max([attempt.began_at, *(rank.phase.at for rank in attempt.ranks.values())])
    return Clock(what="first step", since=since, deadline_s=_first_step_s(state, "first step", policy))


def _launch_clock(state: RunState, attempt: AttemptState, policy: RunPolicy) -> Clock:
    deadline_s = _whole(state, "launch", policy.launch_deadline_s)
    return Clock(what="launch", since=attempt.began_at, deadline_s=deadline_s)


def _gathering_clock(
    state: RunState, attempt: AttemptState, leader: RankState | None, policy: RunPolicy
) -> Clock | None:
    """Wait for ranks that stay behind in a phase that the others have ended.

    A rank whose numbers do not show that something is missing has only lost the event
    of its end; it is waited for no longer than the leader. Nor is anybody once the
    leader has begun what comes after, since it does not do so alone.
    """
    if leader is not None and leader.phase.open and leader.phase.name not in GATHERING:
        return None
    first: dict[str, PhaseMark] = {}
    for rank in attempt.ranks.values():
        mark = rank.phase
        if mark.open and mark.name in GATHERING and (rank is leader or _lacks(mark)):
            first.setdefault(mark.name, mark)
    names = [name for name in GATHERING if name in first]
    return _phase_clock(state, attempt, first[names[0]], policy) if names else None


def _lacks(mark: PhaseMark) -> bool:
    return mark.total is not None and not mark.complete


def behind(attempt: AttemptState, name: str) -> dict[int, RankState]:
    """Give the ranks whose own numbers show that parts of an open phase are still missing."""
    return {
        number: rank
        for number, rank in attempt.ranks.items()
        if rank.phase.open and rank.phase.name == name and _lacks(rank.phase)
    }


def _phase_clock(state: RunState, attempt: AttemptState, mark: PhaseMark, policy: RunPolicy) -> Clock:
    if mark.deadline_s is not None:
        return Clock(what=mark.name, since=mark.began_at, deadline_s=mark.deadline_s)
    marks = _marks(attempt, mark.name)
    waiting = [one for one in marks if one.open]
    busy = [one for one in waiting if not one.complete] or waiting
    deadline_s = BUDGETS.get(mark.name, _other)(state, mark.name, marks, policy)
    entries = [one.began_at for one in marks]
    entered = _entered(attempt, mark.name, entries, deadline_s)
    since = max(entered, *(one.moved_at for one in busy))
    cap_s = _cap_s(state, mark.name, policy)
    if cap_s is not None and entered + cap_s < since + deadline_s:
        since, deadline_s = entered, cap_s
    return Clock(what=mark.name, since=since, deadline_s=deadline_s, spread_s=max(entries) - min(entries))


def _marks(attempt: AttemptState, name: str) -> list[PhaseMark]:
    """Give the marks of all ranks that go or went through the phase together with those still in it."""
    marks = [rank.phase for rank in attempt.ranks.values() if rank.phase.name == name]
    began_at = min(mark.began_at for mark in marks if mark.open)
    return [mark for mark in marks if mark.open or mark.at >= began_at]


def _entered(attempt: AttemptState, name: str, entries: Sequence[float], deadline_s: float) -> float:
    """The clock starts when the last rank has entered, or a deadline after the first (methods 11.20)."""
    spoken = sum(bool(rank.phase.name) for rank in attempt.ranks.values())
    if name in GATHERING and 1 < spoken < attempt.world_size:
        return min(entries) + deadline_s
    return min(max(entries), min(entries) + deadline_s)


def _cap_s(state: RunState, name: str, policy: RunPolicy) -> float | None:
    """Give how long a restore may last although bytes move; None before one was seen."""
    if name != "restore" or not state.wholes.get(name):
        return None
    return _whole(state, name, policy.restore_floor_s)


def _whole(state: RunState, name: str, floor_s: float) -> float:
    return max(floor_s, WHOLE_MEDIANS * middle(state.wholes.get(name, [])))


def _init(_state: RunState, _name: str, _marks: Sequence[PhaseMark], policy: RunPolicy) -> float:
    return policy.init_deadline_s


def _restore(state: RunState, name: str, marks: Sequence[PhaseMark], policy: RunPolicy) -> float:
    """Ranks that report what they read are found in minutes; what only ends is given its usual time."""
    reporting = any(mark.parts or mark.bytes for mark in marks)
    if reporting and any(mark.open and not mark.complete for mark in marks):
        return policy.restore_quiet_s
    return _whole(state, name, policy.restore_floor_s)


def _first_step_s(state: RunState, name: str, policy: RunPolicy) -> float:
    return min(policy.first_step_cap_s, _whole(state, name, policy.first_step_floor_s))


def _compile(state: RunState, name: str, _marks: Sequence[PhaseMark], policy: RunPolicy) -> float:
    return _first_step_s(state, name, policy)


def _save(state: RunState, name: str, _marks: Sequence[PhaseMark], policy: RunPolicy) -> float:
    return _whole(state, name, policy.save_floor_s)


def _eval(state: RunState, name: str, _marks: Sequence[PhaseMark], policy: RunPolicy) -> float:
    parts, wholes = state.parts.get(name, []), state.wholes.get(name, [])
    if len(parts) >= MIN_PARTS:
        return _scaled(median(parts), policy.hang_k, policy.eval_part_floor_s, policy)
    return max(policy.eval_floor_s, EVAL_MEDIANS * median(wholes) if wholes else policy.hang_cap_s)


def _idle(_state: RunState, _name: str, _marks: Sequence[PhaseMark], policy: RunPolicy) -> float:
    return policy.idle_deadline_s


def _other(state: RunState, name: str, _marks: Sequence[PhaseMark], policy: RunPolicy) -> float:
    return _whole(state, name, policy.reload_floor_s)


BUDGETS: dict[str, Callable[[RunState, str, Sequence[PhaseMark], RunPolicy], float]] = {
    "init": _init,
    "rendezvous": _init,
    "restore": _restore,
    "compile": _compile,
    "save": _save,
    "eval": _eval,
    "drain": _idle,
    "idle": _idle,
}
