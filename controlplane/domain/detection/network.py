"""Find a network port that stays down or flaps, and a switch under which many do (methods 7, docs/signatures.md).

A port that goes down and comes back within seconds is a flap: it is counted, and told
only when it has flapped often in a day. The count is sticky: a port that works
again does not make yesterday's flaps untrue. What several nodes under one switch
show together is the switch's, and no node is blamed for it.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from controlplane.domain.detection import hardware, weights
from controlplane.domain.detection.hardware_state import Fault
from controlplane.domain.detection.policy import RunPolicy
from controlplane.domain.detection.state import RunState
from controlplane.domain.findings import Evidence, Finding, Stage
from controlplane.domain.signatures.table import by_id

DETECTOR = "D-23"
KLASS = "network_fault"
DAY_MS = 86_400_000
TOGETHER = 2
MAX_NAMED = 8


@dataclass(frozen=True, slots=True)
class _Port:
    """A port in trouble: `flaps` counts its losses of a day, `down` says that it is down now."""

    node: str
    name: str
    switch: str
    flaps: int
    down: bool
    since: float


def look(state: RunState, policy: RunPolicy, now: float) -> list[Finding]:
    """Give a finding for each switch and each port that is in trouble, and the end of those that recovered."""
    scope = hardware.scope_of(state)
    if scope is None:
        return []
    by_place: dict[str, list[_Port]] = defaultdict(list)
    for port in _in_trouble(state, scope, policy, now):
        by_place[port.switch or port.node].append(port)
    found = [item for place, ports in sorted(by_place.items()) for item in _told(state, scope, place, ports)]
    return [*found, *_recovered(state, {item.key for item in found}, now)]


def due(state: RunState, policy: RunPolicy, now: float) -> float | None:
    """Give when a port that went down has been down for too long to call it a flap."""
    moments = [fault.last_at + policy.flap_s for fault in _downs(state)]
    return min((moment for moment in moments if moment > now), default=None)


def _downs(state: RunState) -> Iterable[Fault]:
    return (fault for fault in state.hardware.faults.values() if "flap" in by_id()[fault.signature].repeat)


def _in_trouble(state: RunState, scope: hardware.Scope, policy: RunPolicy, now: float) -> Iterable[_Port]:
    for fault in _downs(state):
        if not scope.has(fault.node) or not hardware.is_current(state.hardware, fault, scope):
            continue
        machine = state.hardware.machines.get(fault.node)
        down = not _back(state, fault) and now - fault.last_at >= policy.flap_s
        flaps = sum(1 for span in fault.bursts if fault.last_ms - span[1] <= DAY_MS)
        if down or flaps >= policy.flap_limit:
            switch = machine.switch if machine is not None else ""
            yield _Port(fault.node, fault.slot or "port", switch, flaps, down, fault.first_at)


def _back(state: RunState, fault: Fault) -> bool:
    return any(
        "up" in by_id()[other.signature].repeat
        and (other.node, other.slot) == (fault.node, fault.slot)
        and other.last_ms >= fault.last_ms
        for other in state.hardware.faults.values()
    )


def _told(state: RunState, scope: hardware.Scope, place: str, ports: Sequence[_Port]) -> list[Finding]:
    nodes = sorted({port.node for port in ports})
    if len(nodes) >= TOGETHER and ports[0].switch:
        named = ", ".join(nodes[:MAX_NAMED]) if len(nodes) <= MAX_NAMED else f"{len(nodes)} nodes"
        words = f"ports of {named} under switch {place} are down or flap, so the switch is suspected"
        return [_finding(state, scope, (f"network:{place}", f"network:{place}"), words, ports)]
    return [
        _finding(state, scope, (f"network:{port.node}/{port.name}", f"node:{port.node}"), _words(port), [port])
        for port in ports
    ]


def _words(port: _Port) -> str:
    if port.down:
        return f"port {port.name} of {port.node} is down"
    return f"port {port.name} of {port.node} went down {port.flaps} times in a day"


def _finding(
    state: RunState, scope: hardware.Scope, blame: tuple[str, str], words: str, ports: Sequence[_Port]
) -> Finding:
    """Make a finding about the first of `blame` whose evidence weighs on the second."""
    entity, accused = blame
    weight = weights.NETWORK_DOWN if any(port.down for port in ports) else weights.NETWORK_FLAPS
    since = min(port.since for port in ports)
    return Finding(
        key=f"{state.run}/{scope.attempt}/{entity}",
        detector=DETECTOR,
        klass=KLASS,
        stage=Stage.CONFIRMED,
        entity=entity,
        began=since,
        at=since,
        run=state.run,
        attempt=scope.attempt,
        severity="critical" if scope.troubled else "warning",
        sentence=words,
        evidence=(Evidence(at=since, entity=accused, weight=weight, text=words, kind="network port"),),
        facts={"fingerprint": "network port", "cause": words, "nodes_touched": sorted({port.node for port in ports})},
        rule="net-down",
    )


def _recovered(state: RunState, standing: set[str], now: float) -> list[Finding]:
    return [
        Finding(
            key=key,
            detector=DETECTOR,
            klass=KLASS,
            stage=Stage.CLEARED,
            entity=told.entity,
            began=told.began,
            at=now,
            run=state.run,
            attempt=told.attempt,
            severity="info",
            sentence=f"{told.entity.replace(':', ' ')} works again",
        )
        for key, told in state.told.items()
        if told.detector == DETECTOR and told.stage == Stage.CONFIRMED and key not in standing
    ]
