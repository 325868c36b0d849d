"""Find a GPU that has failed, and testify to what machines said before a run stopped (D-06).

A finding stands only for what condemns: a fault that is fatal by its code, a part that
fails again. Anything weaker is testimony: a line of evidence for the detector that
judges the stop, never a reason of its own.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from controlplane.domain.detection import clocks, faults, hardware_words, silence, weights
from controlplane.domain.detection.hardware_rules import FLEET, Clock, Verdict, current, gives_up, judge, struck_at
from controlplane.domain.detection.hardware_state import Fault, HardwareState
from controlplane.domain.detection.policy import RunPolicy
from controlplane.domain.detection.state import ENDED, RunState
from controlplane.domain.detection.storage_witness import lone
from controlplane.domain.findings import Evidence, Finding, Stage
from controlplane.domain.signals import Signal
from controlplane.domain.signatures.table import QUARANTINE_NOW, Signature, by_id

DETECTOR = "D-06"
KLASS = "gpu_fault"
KINDS = faults.KINDS
MAX_TESTIMONY = 48
OWN_FINDINGS = frozenset({"storage_stall", "host_memory"})
"""Classes whose detectors bring their evidence themselves; that of network ports does, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Whose faults are judged: those of `nodes` (None: all but `aside`) since `since`, for a run or the fleet."""

    run: str | None
    attempt: int | None
    since: float
    troubled: bool
    clock: Clock
    nodes: frozenset[str] | None = None
    aside: frozenset[str] = frozenset()

    def has(self, node: str) -> bool:
        """Say whether a node's faults are this scope's to judge."""
        return node not in self.aside and (self.nodes is None or node in self.nodes)


def take(state: RunState, signal: Signal, _policy: RunPolicy) -> None:
    """Write what logs and counters say into the run's record; late words of an earlier attempt's ranks say nothing."""
    attempt = state.attempt
    late = attempt is not None and signal.attempt is not None and signal.attempt < attempt.number
    if not late:
        faults.take(state.hardware, signal)


def look(state: RunState, policy: RunPolicy, now: float) -> list[Finding]:
    """Give a finding for each part of the attempt's nodes that is condemned."""
    scope = scope_of(state)
    return [] if scope is None else findings(state.hardware, scope, policy, now)


def due(state: RunState, policy: RunPolicy, now: float) -> float | None:
    """Give when a counter that rose has waited long enough for a word that explains it."""
    return next_settled(state.hardware, policy, now)


def next_settled(record: HardwareState, policy: RunPolicy, now: float) -> float | None:
    """Give the earliest moment after `now` at which a counter that rose will be believed."""
    moments = [
        fault.first_at + policy.ecc_settle_s
        for fault in record.faults.values()
        if _settles(fault) and fault.first_at + policy.ecc_settle_s > now
    ]
    return min(moments, default=None)


def scope_of(state: RunState) -> Scope | None:
    """Give the scope of the attempt under watch, None without one."""
    attempt = state.attempt
    if attempt is None:
        return None

    def clock(node: str, at_ms: int) -> tuple[float, float] | None:
        at, bound = clocks.true_time(state, node, at_ms), clocks.bound(state, node)
        return None if at is None or bound is None else (at, bound)

    return Scope(
        run=state.run,
        attempt=attempt.number,
        since=attempt.began_at,
        troubled=state.troubled or attempt.state == ENDED,
        clock=clock,
        nodes=frozenset(silence.members(attempt)),
    )


def fleet_scope(clock: Clock, *, aside: Iterable[str] = (), since: float = 0.0) -> Scope:
    """Give the scope of the fleet: nodes of no attempt; `aside` are a run's or kept out anyway."""
    return Scope(run=None, attempt=FLEET, since=since, troubled=False, clock=clock, nodes=None, aside=frozenset(aside))


def findings(record: HardwareState, scope: Scope, policy: RunPolicy, now: float) -> list[Finding]:
    """Judge the parts in `scope`; what is said once for an attempt stays said."""
    parts: dict[tuple[str, str], list[tuple[Fault, Verdict]]] = defaultdict(list)
    for fault in record.faults.values():
        if by_id()[fault.signature].klass == KLASS and scope.has(fault.node) and _settled(fault, policy, now):
            verdict = judge(record, fault)
            if is_current(record, fault, scope):
                parts[fault.node, fault.gpu or fault.slot].append((fault, verdict))
    found = [_finding(scope, part) for part in parts.values() if any(verdict.acts for _, verdict in part)]
    return sorted(found, key=lambda item: item.key)


def is_current(record: HardwareState, fault: Fault, scope: Scope) -> bool:
    """Say whether the fault belongs to what the scope judges."""
    return current(record, fault, attempt=scope.attempt, since=scope.since, clock=scope.clock)


def _settles(fault: Fault) -> bool:
    return fault.signature == "gpu-ecc-volatile"


def _settled(fault: Fault, policy: RunPolicy, now: float) -> bool:
    """A counter that rises may be explained by a line that comes a moment later."""
    return not _settles(fault) or now - fault.first_at >= policy.ecc_settle_s


def _finding(scope: Scope, part: Sequence[tuple[Fault, Verdict]]) -> Finding:
    ordered = sorted(part, key=lambda pair: (not pair[1].acts, -pair[1].weight, struck_at(pair[0]), pair[0].signature))
    fault, verdict = ordered[0]
    signature = by_id()[fault.signature]
    for told, _ in ordered:
        told.kept = scope.attempt
    at_once = scope.troubled or any(said.action == QUARANTINE_NOW for _, said in ordered)
    sentence = hardware_words.text(signature, fault, verdict)
    return Finding(
        key=f"{_owner(scope)}/gpu/{fault.node}/{fault.gpu or fault.slot or 'node'}",
        detector=DETECTOR,
        klass=KLASS,
        stage=Stage.CONFIRMED,
        entity=hardware_words.entity(signature, fault),
        began=min(struck_at(told) for told, said in ordered if said.acts),
        at=fault.last_at,
        run=scope.run,
        attempt=None if scope.attempt == FLEET else scope.attempt,
        severity="critical" if at_once else "warning",
        sentence=sentence,
        evidence=tuple(line(told, said, scope.clock) for told, said in ordered if said.weight),
        facts=_facts(ordered, sentence, at_once=at_once),
        rule=signature.id,
    )


def _owner(scope: Scope) -> str:
    return "fleet" if scope.run is None else f"{scope.run}/{scope.attempt}"


def _facts(ordered: Sequence[tuple[Fault, Verdict]], sentence: str, *, at_once: bool) -> dict[str, Any]:
    fault, verdict = ordered[0]
    return {
        "fingerprint": by_id()[fault.signature].name,
        "cause": sentence,
        "node": fault.node,
        "gpu": fault.gpu,
        "slot": fault.slot,
        "gpus": {fault.gpu: fault.node} if fault.gpu else {},
        "places": {} if fault.rank is None else {str(fault.rank): fault.node},
        "action": QUARANTINE_NOW if at_once else verdict.action,
        "signatures": [told.signature for told, _ in ordered],
        "return_to_vendor": any(gives_up(told) for told, _ in ordered),
    }


def line(fault: Fault, verdict: Verdict, clock: Clock) -> Evidence:
    """Give one line of evidence, on the node for whatever is part of it."""
    signature = by_id()[fault.signature]
    when = clock(fault.node, fault.bursts[-1][0] if fault.bursts else fault.last_ms)
    return Evidence(
        at=struck_at(fault) if when is None else when[0],
        entity=hardware_words.accused(signature, fault),
        weight=verdict.weight,
        text=hardware_words.text(signature, fault, verdict),
        kind=signature.name,
        bound_s=None if when is None else when[1],
    )


def testimony(state: RunState, policy: RunPolicy, now: float) -> list[Evidence]:
    """Give what machines said within `testimony_s` before the attempt stopped, strongest first.

    For the detector that judges the stop: every line that this module's own findings
    carry comes with the same words here, so that it is counted once.
    """
    scope = scope_of(state)
    if scope is None:
        return []
    stop = state.death.found_at or now
    since = max(scope.since, stop - policy.testimony_s)
    found = [
        (fault, judge(state.hardware, fault))
        for fault in state.hardware.faults.values()
        if _may_testify(state.hardware, fault, scope, since)
    ]
    lines = [line(fault, verdict, scope.clock) for fault, verdict in found if verdict.weight]
    lines += [*_programs(found, state, now), *_reboots(state, scope, since), *lone(state, policy, now)]
    lines = [said for said in lines if said.entity]
    return sorted(lines, key=lambda said: (-abs(said.weight), said.entity, said.text))[:MAX_TESTIMONY]


def _may_testify(record: HardwareState, fault: Fault, scope: Scope, since: float) -> bool:
    signature = by_id()[fault.signature]
    if (
        signature.klass in OWN_FINDINGS
        or "flap" in signature.repeat
        or not (scope.has(fault.node) or fault.rank is not None)
    ):
        return False
    return fault.last_at >= since and is_current(record, fault, scope)


def _programs(found: Sequence[tuple[Fault, Verdict]], state: RunState, now: float) -> list[Evidence]:
    """The same fault of a program on several GPUs speaks against the program (methods 11.1)."""
    shown: dict[str, tuple[Signature, Fault, Verdict]] = {}
    for fault, verdict in found:
        signature = by_id()[fault.signature]
        if "gpus2" in signature.repeat and not verdict.weight:
            shown[signature.id] = (signature, fault, verdict)
    return [
        Evidence(
            at=state.death.found_at or now,
            entity="workload",
            weight=weights.EXCEPTION,
            text=hardware_words.text(signature, fault, verdict),
            kind=f"{signature.name} on several GPUs",
        )
        for signature, fault, verdict in shown.values()
    ]


def _reboots(state: RunState, scope: Scope, since: float) -> list[Evidence]:
    """A machine that boots in mid-run took its ranks with it."""
    return [
        Evidence(
            at=max(booted),
            entity=f"node:{name}",
            weight=weights.REBOOTED,
            text=f"node {name} rebooted while the run was on it",
            kind="reboot",
        )
        for name, machine in state.hardware.machines.items()
        if scope.has(name) and (booted := [at for at in machine.reboots if at >= since])
    ]
