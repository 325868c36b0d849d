"""When automation itself is the trouble: it acts again and again and nothing gets better.

Buckets slow a storm down, they do not end it. The breaker ends it: once open, automation
only proposes, until a person looks and resets it. So a job that dies at start costs a
handful of launches, not a night (methods 8).
"""

from dataclasses import dataclass

from controlplane.domain.detection.policy import DAY_S, RunPolicy

RUNS_FAILED = 3
OUT_FLOOR = 4
OUT_SHARE = 0.10
OUT_WINDOW_S = DAY_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What automation did for one run within the window: executions that failed, restarts all spent."""

    failed: int = 0
    empties: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetRecord:
    """What it did for the fleet: runs on which an execution failed, nodes that it took out within a day."""

    runs_failed: int = 0
    nodes_out: int = 0
    nodes: int = 0


def judge_run(record: Record, policy: RunPolicy) -> str:
    """Say why the breaker of a run opens, or ""."""
    within = f"within {policy.breaker_window_s / 60:g} min"
    if record.failed >= policy.breaker_failures:
        return f"{record.failed} runbooks failed on this run {within}"
    if record.empties >= policy.breaker_empties:
        return f"all restarts of this run were spent {record.empties} times {within}"
    return ""


def judge_fleet(record: FleetRecord, *, runs_failed: int = RUNS_FAILED, out_share: float = OUT_SHARE) -> str:
    """Say why the breaker of the fleet opens, or ""."""
    if record.runs_failed >= runs_failed:
        return f"runbooks failed on {record.runs_failed} runs within an hour"
    most = most_out(record.nodes, out_share)
    if record.nodes_out > most:
        return f"automation took {record.nodes_out} nodes out within a day; more than {most} need a person"
    return ""


def most_out(nodes: int, share: float = OUT_SHARE) -> int:
    """How many nodes of `nodes` automation may take out within a day; a share has a floor (methods 11.3)."""
    return max(OUT_FLOOR, int(nodes * share))
