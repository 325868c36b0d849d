"""Explain a killed process by the memory of its machine (methods 11.2).

The kernel names what it kills. A rank that it killed is explained by that and condemns
no node: another program would have eaten the memory of any machine. A helper of the
fabric or of the storage that it killed explains the errors which follow.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from signal import SIGKILL

from controlplane.domain.detection import hardware
from controlplane.domain.detection.hardware_rules import struck_at
from controlplane.domain.detection.hardware_state import Fault
from controlplane.domain.detection.policy import RunPolicy
from controlplane.domain.detection.state import ENDED, AttemptState, RankState, RunState
from controlplane.domain.findings import Evidence, Finding, Stage
from controlplane.domain.signatures.table import by_id

DETECTOR = "D-22"
KLASS = "host_memory"
OOM_KILL = 5.0
"""What a kill by the kernel weighs (methods 7)."""
NEAR_S = 60.0
"""A rank that was killed this near to the kernel's line, and that no line names, was its prey."""
MAX_FINDINGS = 16
HELPERS = re.compile(
    r"opensm|fabricmanager|hostengine|dcgm|rdma|ibacm|mmfsd|lustre|ptlrpcd|ceph|nfs|rpc\.|weka|beegfs|slurm"
)
"""Names of side agents of network, storage and monitoring."""


@dataclass(frozen=True, slots=True)
class _Kill:
    """A kill of the kernel and the rank that it took, None for a helper."""

    fault: Fault
    number: int | None


def look(state: RunState, policy: RunPolicy, now: float) -> list[Finding]:  # noqa: ARG001 - one shape for all
    """Give a finding for each rank of the attempt that the kernel killed, and for each helper once the run stopped."""
    attempt, scope = state.attempt, hardware.scope_of(state)
    if attempt is None or scope is None:
        return []
    kills = [
        kill
        for fault in state.hardware.faults.values()
        if by_id()[fault.signature].klass == KLASS
        and scope.has(fault.node)
        and hardware.is_current(state.hardware, fault, scope)
        for kill in _kills(attempt, fault, stopped=scope.troubled)
    ]
    best = {(kill.fault.node, kill.number): kill for kill in sorted(kills, key=_weight)}
    return [_finding(state, attempt, kill) for _, kill in sorted(best.items(), key=_order)[:MAX_FINDINGS]]


def _weight(kill: _Kill) -> tuple[bool, float]:
    return bool(kill.fault.process), -struck_at(kill.fault)


def _order(item: tuple[tuple[str, int | None], _Kill]) -> tuple[str, int]:
    node, number = item[0]
    return node, -1 if number is None else number


def _kills(attempt: AttemptState, fault: Fault, *, stopped: bool) -> Iterator[_Kill]:
    rank = attempt.ranks.get(fault.rank) if fault.rank is not None else None
    if rank is not None and rank.node == fault.node:
        if rank.exited:
            yield _Kill(fault, fault.rank)
        return
    if stopped and HELPERS.search(fault.process):
        yield _Kill(fault, None)
        return
    prey = [number for number, other in sorted(attempt.ranks.items()) if _was_prey(other, fault)]
    yield from (_Kill(fault, number) for number in prey)


def _was_prey(rank: RankState, fault: Fault) -> bool:
    """A rank of that node that signal 9 ended at that time, or that lost a worker to it."""
    if rank.node != fault.node or not rank.died or rank.exited_at is None:
        return False
    near = abs(rank.exited_at - fault.last_at) <= NEAR_S
    lost_worker = "worker" in rank.error.lower() and "killed" in rank.error.lower()
    return near and (rank.signal == SIGKILL or lost_worker)


def _finding(state: RunState, attempt: AttemptState, kill: _Kill) -> Finding:
    fault, number = kill.fault, kill.number
    words = _words(kill)
    grave = attempt.state == ENDED or state.troubled
    return Finding(
        key=f"{state.run}/{attempt.number}/memory/{fault.node}/{'helper' if number is None else number}",
        detector=DETECTOR,
        klass=KLASS,
        stage=Stage.CONFIRMED,
        entity=f"node:{fault.node}" if number is None else f"rank:{number}",
        began=struck_at(fault),
        at=fault.first_at,
        run=state.run,
        attempt=attempt.number,
        severity="critical" if grave and number is not None else "warning",
        sentence=words,
        evidence=(_evidence(kill, words),),
        facts={
            "fingerprint": "out of memory",
            "cause": words,
            "process": fault.process,
            "places": {} if number is None else {str(number): fault.node},
        },
        rule=fault.signature,
    )


def _words(kill: _Kill) -> str:
    fault = kill.fault
    why = "its memory limit was reached" if fault.signature == "krn-oom-cgroup" else "the machine ran out of memory"
    who = fault.process or "a process"
    if kill.number is None:
        return f"the kernel of {fault.node} killed {who}, on which others rely, because {why}"
    return f"the kernel of {fault.node} killed {who} of rank {kill.number} because {why}"


def _evidence(kill: _Kill, words: str) -> Evidence:
    """Weigh on the rank and never on the node; a helper's end is told and weighs on nobody."""
    at = struck_at(kill.fault)
    if kill.number is None:
        return Evidence(at=at, entity=f"node:{kill.fault.node}", weight=0.0, text=words, kind="oom kill of a helper")
    return Evidence(at=at, entity=f"rank:{kill.number}", weight=OOM_KILL, text=words, kind="oom kill")
