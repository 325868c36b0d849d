"""Say what the detector of slow runs found: one finding per slow-down."""

from controlplane.domain.detection import weights
from controlplane.domain.detection.policy import RunPolicy
from controlplane.domain.detection.slow_state import Alarm
from controlplane.domain.detection.state import AttemptState, RunState
from controlplane.domain.findings import Evidence, Finding, Stage

DETECTOR = "D-04"
CLASS = "fail_slow"
MAX_RANKS_NAMED = 8

CAUSES = {
    "data": "the data loader is slow, the ranks compute as fast as before",
    "network": "all ranks wait longer and none computes longer, so the network is slow and no node is to blame",
    "all": "all ranks compute more slowly alike, so no node stands out",
}


def finding(state: RunState, attempt: AttemptState, alarm: Alarm, policy: RunPolicy) -> Finding:
    """Give the finding of an alarm that was told."""
    evidence = _evidence(alarm)
    return Finding(
        key=f"{state.run}/{attempt.number}/slow/{alarm.serial}",
        detector=DETECTOR,
        klass=CLASS,
        stage=Stage(alarm.stage),
        entity=evidence[0].entity if evidence else "run",
        began=alarm.began,
        at=alarm.found_at,
        run=state.run,
        attempt=attempt.number,
        severity=_severity(alarm, policy),
        sentence=_sentence(state.run, alarm),
        evidence=evidence,
        facts=_facts(alarm),
    )


def _severity(alarm: Alarm, policy: RunPolicy) -> str:
    if alarm.notice or alarm.stage == Stage.CLEARED:
        return "info"
    return "critical" if alarm.share > policy.slow_urgent_share else "warning"


def _sentence(run: str, alarm: Alarm) -> str:
    if alarm.stage == Stage.CLEARED:
        return f"run {run} is as fast as before again, {alarm.usual_s:.3g} s a step"
    took_s = alarm.usual_s * (1 + alarm.share)
    base = (
        f"run {run} has been {alarm.share:.1%} slower since step {alarm.onset_step}: "
        f"a step takes {took_s:.3g} s instead of {alarm.usual_s:.3g} s"
    )
    why = "" if alarm.notice else _why(alarm)
    return f"{base}; {why}" if why else base


def _why(alarm: Alarm) -> str:
    if alarm.cause == "rank":
        return _slow_rank(alarm)
    if alarm.cause == "data" and alarm.ranks:
        return f"the data loader of rank {alarm.ranks[0]} is slow, the ranks compute as fast as before"
    if alarm.cause:
        return CAUSES[alarm.cause]
    return "the ranks' own times name no node" if alarm.examined else "no rank's own times say yet who is slow"


def _slow_rank(alarm: Alarm) -> str:
    others = f" and {len(alarm.ranks) - 1} more of its ranks" if len(alarm.ranks) > 1 else ""
    return (
        f"rank {alarm.ranks[0]} on node {alarm.node}{others} computes {alarm.over_s:.3g} s longer than its peers "
        f"({_times(alarm.growth)}) and waits least, so the others wait for it"
    )


def _times(growth: float) -> str:
    """Compare with the peers: by a factor where a share would be beyond imagination."""
    return f"{growth:.1%}" if growth <= 1 else f"{growth + 1:.1f} times as long"


def _evidence(alarm: Alarm) -> tuple[Evidence, ...]:
    if alarm.stage == Stage.CLEARED or alarm.cause not in ("rank", "data"):
        return ()
    if alarm.cause == "data":
        return (_line(alarm, "data", weights.SLOW_DATA, "slow data"),)
    return (_line(alarm, f"node:{alarm.node}", weights.SLOW_RANK, "slow rank"),)


def _line(alarm: Alarm, entity: str, weight: float, kind: str) -> Evidence:
    return Evidence(at=alarm.named_at, entity=entity, weight=weight, text=_why(alarm), kind=kind)


def _facts(alarm: Alarm) -> dict[str, object]:
    step_s = alarm.usual_s * (1 + alarm.share)
    return {
        "drop": round(alarm.share, 4),
        "notice": alarm.notice,
        "located": alarm.cause == "rank",
        "network": alarm.cause == "network",
        "data": alarm.cause == "data",
        "windows": alarm.windows,
        "locating": alarm.measured and not alarm.examined and not alarm.cause,
        "ranks": alarm.ranks[:MAX_RANKS_NAMED],
        "node": alarm.node,
        "onset_step": alarm.onset_step,
        "step_s": round(step_s, 4),
        "usual_step_s": round(alarm.usual_s, 4),
        "steps_per_s": round(1 / step_s, 6) if step_s > 0 else 0.0,
        "places": {str(rank): alarm.node for rank in alarm.ranks[:MAX_RANKS_NAMED]} if alarm.node else {},
        "fingerprint": "steps became slower",
        "cause": _why(alarm) if alarm.cause else "",
    }
