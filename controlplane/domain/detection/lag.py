"""See that steps arrive late, which is no hang and no loss of a node (D-19).

A step is late when it arrives long after it was stamped, measured by the clock of its
node as heartbeats show it. One late step proves nothing; only when nothing but
late ones arrive for minutes is it told, once.
"""

from controlplane.domain.detection import clocks, steps
from controlplane.domain.detection.policy import RunPolicy
from controlplane.domain.detection.state import RunState, StepLag
from controlplane.domain.findings import Finding, Stage
from controlplane.domain.signals import Signal

DETECTOR = "D-19"
LATE_STEPS = 2


def take(state: RunState, signal: Signal, policy: RunPolicy) -> None:
    """Measure how late a step arrived; a node whose clock is unknown is taken at its word."""
    lag, stamped = state.lag, clocks.true_time(state, signal.node, signal.at_ms)
    late_s = signal.received - (signal.at_ms / 1000 if stamped is None else stamped)
    if late_s <= limit_s(state, policy):
        lag.late_since = None
        return
    lag.late_since = signal.received if lag.late_since is None else min(lag.late_since, signal.received)
    lag.last_late_at, lag.lag_s = max(lag.last_late_at, signal.received), late_s


def limit_s(state: RunState, policy: RunPolicy) -> float:
    """Give from when on a step counts as late: two steps, and a minute at least."""
    return max(policy.lag_floor_s, LATE_STEPS * (steps.median_step_s(state, policy) or 0.0))


def look(state: RunState, policy: RunPolicy, now: float) -> list[Finding]:
    """Tell that only late steps have arrived for minutes, or that they are on time again."""
    lag = state.lag
    if lag.told_at is not None and lag.late_since is None:
        cleared = _finding(state, Stage.CLEARED, now)
        lag.told_at = None
        return [cleared]
    if lag.told_at is None and _lasts(lag, policy, now):
        lag.told_at, lag.serial = now, lag.serial + 1
    return [_finding(state, Stage.CONFIRMED, lag.told_at)] if lag.told_at is not None else []


def _lasts(lag: StepLag, policy: RunPolicy, now: float) -> bool:
    """Late steps must go on arriving: what comes in one go after an outage is no lag that lasts."""
    if lag.late_since is None:
        return False
    return lag.last_late_at - lag.late_since >= policy.lag_told_s <= now - lag.late_since


def _finding(state: RunState, stage: Stage, at: float) -> Finding:
    lag, told = state.lag, stage is not Stage.CLEARED
    late = f"steps of run {state.run} have arrived late for minutes; its progress is seen with delay"
    return Finding(
        key=f"{state.run}/lag/{lag.serial}",
        detector=DETECTOR,
        klass="telemetry_lost",
        stage=stage,
        entity="platform",
        began=lag.late_since or at,
        at=at,
        run=state.run,
        severity="warning" if told else "info",
        sentence=late if told else f"steps of run {state.run} arrive on time again",
        facts={"fingerprint": "lag", "lag_s": round(lag.lag_s, 1)},
    )
