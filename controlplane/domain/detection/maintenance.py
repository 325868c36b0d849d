"""Planned maintenance: silence that was announced is no trouble, until it lasts too long.

A notice suspends what age and silence would say of its nodes until its declared end
and a little more. A node that has not come back by then is told once, for all
nodes together, and still nobody is blamed (methods 1).
"""

from collections.abc import Mapping

from controlplane.domain.detection import reading
from controlplane.domain.detection.maintenance_state import Maintenance, Window
from controlplane.domain.detection.policy import RunPolicy
from controlplane.domain.detection.state import MAX_NODES, RunState
from controlplane.domain.findings import Finding
from controlplane.domain.signals import Signal

KIND = "capacity.notice"
KEEP_S = 7 * 86_400.0
"""A node that is still away a week after its maintenance is no longer excused by it."""


def take(plan: Maintenance, signal: Signal) -> None:
    """Take a notice in; the newest that names a node holds for it, so an early end is one more notice."""
    begins, ends = reading.number(signal.data, "begins_at_ms"), reading.number(signal.data, "ends_at_ms")
    if reading.text(signal.data, "what") != "maintenance" or ends is None:
        return
    window = Window(begins=(signal.at_ms if begins is None else begins) / 1000, ends=ends / 1000, at_ms=signal.at_ms)
    names = reading.names(signal.data, "nodes", MAX_NODES)
    if not names and window.at_ms >= plan.everybody.at_ms:
        plan.everybody = window
    for name in names:
        _note(plan.windows, name, window)


def _note(windows: dict[str, Window], name: str, window: Window) -> None:
    known = windows.get(name)
    if known is None and len(windows) >= MAX_NODES:
        return
    if known is None or window.at_ms >= known.at_ms:
        windows[name] = window


def window_of(plan: Maintenance, node: str) -> Window | None:
    """Give the window that holds for a node: the newer of its own and the one for everybody."""
    own = plan.windows.get(node, Window())
    newest = own if own.at_ms >= plan.everybody.at_ms else plan.everybody
    return newest if newest.at_ms >= 0 else None


def excused(plan: Maintenance, node: str, last_at: float | None, policy: RunPolicy, now: float) -> bool:
    """Say whether silence of `node` is no trouble of its own: in its window, or never back since."""
    window = window_of(plan, node)
    if window is None or not window.begins <= now < window.ends + KEEP_S:
        return False
    limit = window.ends + policy.maintenance_grace_s
    return now < limit or (last_at or 0.0) < limit - policy.silence_s


def late(plan: Maintenance, node: str, last_at: float | None, policy: RunPolicy, now: float) -> bool:
    """Say whether a silent node should have come back from its maintenance by now."""
    window = window_of(plan, node)
    overdue = window is not None and now >= window.ends + policy.maintenance_grace_s
    return overdue and excused(plan, node, last_at, policy, now)


def prune(plan: Maintenance, now: float) -> None:
    """Forget notices that excuse nobody any more."""
    for name in [name for name, window in plan.windows.items() if window.ends + KEEP_S <= now]:
        del plan.windows[name]


def moments(plan: Maintenance, policy: RunPolicy) -> list[float]:
    """Give when verdicts may change by the clock alone: windows that begin, and those that are overdue."""
    windows = {(window.begins, window.ends) for window in [*plan.windows.values(), plan.everybody] if window.at_ms >= 0}
    return [moment for begins, ends in windows for moment in (begins, ends + policy.maintenance_grace_s)]


def take_run(state: RunState, signal: Signal, _policy: RunPolicy) -> None:
    """Take a notice into a run's state."""
    take(state.maintenance, signal)


def look(state: RunState, policy: RunPolicy, now: float) -> list[Finding]:
    """Note the end of a rest: clocks begin anew, because what happened meanwhile was announced."""
    plan, resting = state.maintenance, rests(state, policy, now)
    if plan.resting and not resting:
        state.sight.resumed_at = now
    plan.resting = resting
    prune(plan, now)
    return []


def rests(state: RunState, policy: RunPolicy, now: float) -> bool:
    """Say whether a member of the run is in maintenance, or missing since: the whole run waits for it."""
    attempt, plan = state.attempt, state.maintenance
    if attempt is None or (not plan.windows and plan.everybody.at_ms < 0):
        return False
    names = attempt.nodes or {rank.node for rank in attempt.ranks.values() if rank.node}
    return any(_rests(state, name, policy, now) for name in names)


def _rests(state: RunState, name: str, policy: RunPolicy, now: float) -> bool:
    node, window = state.nodes.get(name), window_of(state.maintenance, name)
    if window is None or node is None:
        return False
    inside = window.begins <= now < window.ends + policy.maintenance_grace_s
    silent = node.last_at is None or now - node.last_at >= policy.silence_s
    return inside or (silent and late(state.maintenance, name, node.last_at, policy, now))


def due(state: RunState, policy: RunPolicy, now: float) -> float | None:
    """Give when the next window of the run begins or is overdue."""
    return min((moment for moment in moments(state.maintenance, policy) if moment > now), default=None)


def described(windows: Mapping[str, Window]) -> dict[str, tuple[float, float]]:
    """Give the declared windows for a page: node to begin and end."""
    return {name: (window.begins, window.ends) for name, window in sorted(windows.items())}
