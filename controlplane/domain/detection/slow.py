"""Find a run that still trains but more slowly than it did, and the node that holds it up (methods 3).

The step times of rank 0 say that a run is slow; only the ranks' own times say who makes
it slow, and only after several windows in a row. Whatever they leave open stays open: a
slow network, a slow data loader or a slow-down of all ranks alike is told as such and blames no node.
"""

from collections.abc import Callable, Mapping
from statistics import median

from controlplane.domain.detection import cohorts, reading, slow_steps, slow_words
from controlplane.domain.detection.policy import RunPolicy
from controlplane.domain.detection.slow_state import Alarm, SlowAttempt, SlowState, Window
from controlplane.domain.detection.state import LIVE, AttemptState, RunState
from controlplane.domain.findings import Finding
from controlplane.domain.signals import Signal

EXPLAINS = 0.6
"""Share of the lost time that a rank must account for by itself to be named."""
COMMON_EXPLAINS = 0.5
FLAT = 0.25
MANY_SHARE = 0.1
MANY_NODES = 2
QUIET_SHARE = 0.5
NAMES = ("git", "image")
SIZES = ("batch", "seq")
MAX_SIZES = 16


def take(state: RunState, signal: Signal, policy: RunPolicy) -> None:
    """Take in what concerns the speed of the current attempt."""
    attempt, slow = state.attempt, state.slow
    if attempt is None or signal.run != state.run or signal.attempt not in (None, attempt.number):
        return
    if slow.attempt.number != attempt.number:
        slow.attempt = SlowAttempt(number=attempt.number)
    if attempt.state == LIVE:
        RULES[signal.kind](slow, attempt, signal, policy)


def _announced(slow: SlowState, attempt: AttemptState, signal: Signal, _policy: RunPolicy) -> None:
    """Compare only with steps of the same code, size of world and size of batch."""
    fingerprint, given = reading.mapping(signal.data, "fingerprint"), reading.mapping(signal.data, "parameters")
    code = [f"{name} {reading.text(fingerprint, name)}" for name in NAMES if reading.text(fingerprint, name)]
    known = [name for name in sorted(str(name) for name in given) if any(word in name.lower() for word in SIZES)]
    sizes = [f"{name} {reading.number(given, name):g}" for name in known[:MAX_SIZES] if reading.number(given, name)]
    key = ", ".join([*code, f"world {attempt.world_size}", *sizes])[: reading.MAX_TEXT]
    if key != slow.key and slow.key:
        slow.attempt = SlowAttempt(number=attempt.number, cohorts=slow.attempt.cohorts)
    slow.key = key


def _step(slow: SlowState, attempt: AttemptState, signal: Signal, policy: RunPolicy) -> None:
    slow_steps.take(slow, attempt, signal, policy)
    _locate(slow.attempt, attempt, policy)


def _window(slow: SlowState, attempt: AttemptState, signal: Signal, policy: RunPolicy) -> None:
    before = slow.attempt.judged
    cohorts.take(slow.attempt, attempt, signal, policy, well=_well(slow, policy))
    if slow.attempt.judged != before:
        _locate(slow.attempt, attempt, policy)


def _well(slow: SlowState, policy: RunPolicy) -> bool:
    """Say whether the run is as fast as usual, as far as is known."""
    reference, main = slow.references.get(slow.key), slow.attempt.main
    if slow_steps.standing(slow.attempt) is not None:
        return False
    return reference is None or main.total <= QUIET_SHARE * policy.slow_h_sigmas * reference.sigma


def _started(slow: SlowState, _attempt: AttemptState, signal: Signal, _policy: RunPolicy) -> None:
    cohorts.cohort(slow.attempt, signal)


RULES: Mapping[str, Callable[[SlowState, AttemptState, Signal, RunPolicy], None]] = {
    "attempt.started": _announced,
    "rank.started": _started,
    "rank.step": _step,
    "rank.window": _window,
}


def _locate(mine: SlowAttempt, attempt: AttemptState, policy: RunPolicy) -> None:
    """Say who or what makes the run slow, from the newest windows since it is."""
    alarm = slow_steps.standing(mine)
    if alarm is None or alarm.notice:
        return
    since = [window for window in mine.windows if window.last_step - cohorts.WINDOW_STEPS // 2 >= alarm.onset_step]
    row = since[-policy.slow_rank_windows :]
    alarm.windows, alarm.measured = len(since), bool(mine.windows)
    if len(row) < policy.slow_rank_windows:
        return
    alarm.examined = True
    cause, ranks = _cause(attempt, alarm, row)
    if cause == "rank" or not _still(alarm, row):
        _name(attempt, alarm, cause, ranks, row)


def _cause(attempt: AttemptState, alarm: Alarm, row: list[Window]) -> tuple[str, list[int]]:
    lost_ms = alarm.share * alarm.usual_s * 1000
    if all(_data_ms(window) >= COMMON_EXPLAINS * lost_ms for window in row):
        ranks = {window.data_rank for window in row}
        everybody = all((window.data_ms or 0.0) >= COMMON_EXPLAINS * lost_ms for window in row)
        return "data", [] if everybody or len(ranks) > 1 else sorted(ranks)
    if all((window.compute_ms or 0.0) >= COMMON_EXPLAINS * lost_ms for window in row):
        return "all", []
    named = [rank for rank in cohorts.in_row(row) if _gain_ms(row, rank) >= EXPLAINS * lost_ms]
    if named and not _many(attempt, named):
        return "rank", named
    if not named and all(_only_waits(window, lost_ms) for window in row):
        return "network", []
    return "", []


def _data_ms(window: Window) -> float:
    return max(window.data_ms or 0.0, window.data_rank_ms)


def _only_waits(window: Window, lost_ms: float) -> bool:
    """All ranks wait longer, the slowest among them too, and none has more work."""
    wait, compute = window.wait_ms, window.compute_ms
    if wait is None or compute is None:
        return False
    return wait >= COMMON_EXPLAINS * lost_ms and abs(compute) <= FLAT * lost_ms


def _gain_ms(row: list[Window], rank: int) -> float:
    return median(window.flagged[rank].gain_ms for window in row)


def _many(attempt: AttemptState, ranks: list[int]) -> bool:
    """Where many nodes became slow at once no single one is to blame."""
    nodes = {_place(attempt, rank) for rank in ranks}
    everywhere = {rank.node for rank in attempt.ranks.values()}
    return len(nodes) > max(MANY_NODES, MANY_SHARE * len(everywhere))


def _place(attempt: AttemptState, rank: int) -> str:
    known = attempt.ranks.get(rank)
    return known.node if known is not None else ""


def _still(alarm: Alarm, row: list[Window]) -> bool:
    """A rank that was named stays named until it stood out in none of the windows."""
    return bool(alarm.node) and any(rank in window.flagged for window in row for rank in alarm.ranks)


def _name(attempt: AttemptState, alarm: Alarm, cause: str, ranks: list[int], row: list[Window]) -> None:
    node = _place(attempt, ranks[0]) if cause == "rank" else ""
    if cause == "rank":
        ranks = [rank for rank in ranks if _place(attempt, rank) == node]
    if (cause, node) == (alarm.cause, alarm.node):
        return
    alarm.cause, alarm.node, alarm.ranks, alarm.named_at = cause, node, ranks, row[-1].at
    flags = [window.flagged[ranks[0]] for window in row] if node else []
    alarm.growth = median(flag.ratio for flag in flags) - 1 if flags else 0.0
    alarm.over_s = median(flag.over_ms for flag in flags) / 1000 if flags else 0.0


def look(state: RunState, policy: RunPolicy, _now: float) -> list[Finding]:
    """Give the slow-downs that were told, those included that are over."""
    attempt, mine = state.live, state.slow.attempt
    if attempt is None or attempt.number != mine.number:
        return []
    return [slow_words.finding(state, attempt, alarm, policy) for alarm in mine.alarms if alarm.stage]
