"""Tell when the fleet is heard badly, or stays away from maintenance too long (D-19, D-17).

Each sort of it is told once for all nodes that have it, and nobody is blamed.
"""

from collections.abc import Callable

from controlplane.domain.detection import maintenance
from controlplane.domain.detection.fleet_loss import silence_s, silent_nodes
from controlplane.domain.detection.fleet_places import listed
from controlplane.domain.detection.fleet_state import Ailment, FleetNode, FleetState, Witness
from controlplane.domain.detection.policy import RunPolicy
from controlplane.domain.findings import Finding, Stage

DROPPED_TOLD_S = 900.0
FLOOD_TOLD_S = 300.0

Has = Callable[[FleetNode, RunPolicy, float], bool]


def _deaf(node: FleetNode, policy: RunPolicy, now: float) -> bool:
    """One of its readers has read nothing for minutes."""
    return any(now - since >= policy.lag_told_s for since in node.hearing.deaf.values())


def _lagging(node: FleetNode, policy: RunPolicy, now: float) -> bool:
    since = node.hearing.lagging_since
    return since is not None and now - since >= policy.lag_told_s


def _dropped(node: FleetNode, _policy: RunPolicy, now: float) -> bool:
    at = node.hearing.dropped_at
    return at is not None and now - at < DROPPED_TOLD_S


def _flooding(node: FleetNode, _policy: RunPolicy, now: float) -> bool:
    at = node.hearing.flood_at
    return at is not None and now - at < FLOOD_TOLD_S


AILMENTS: dict[str, tuple[Has, str, str]] = {
    "deaf": (_deaf, "a reader of {} reads nothing, so its silence means nothing", "the readers read again"),
    "lag": (
        _lagging,
        "the agent of {} is more than a minute behind",
        "the agents keep up again",
    ),
    "dropped": (_dropped, "the agent of {} dropped events because its spool was full", "no more events are dropped"),
    "flood": (_flooding, "the log of {} floods with more than a thousand lines a minute", "the flood has ended"),
}


def look(state: FleetState, policy: RunPolicy, now: float) -> list[Finding]:
    """Give the sorts of bad hearing that hold, and those that ended."""
    found = []
    for sort, (has, words, end) in AILMENTS.items():
        names = [name for name, node in sorted(state.nodes.items()) if has(node, policy, now)]
        ailment = state.ailments.setdefault(sort, Ailment()) if names else state.ailments.get(sort)
        if ailment is None or not (names or ailment.open):
            continue
        if names and not ailment.open:
            ailment.open, ailment.found_at, ailment.serial = True, now, ailment.serial + 1
        ailment.open, ailment.nodes = bool(names), names or ailment.nodes
        found.append(_finding(sort, ailment, words.format(listed(ailment.nodes)) if names else end, now))
    return found


def _finding(sort: str, ailment: Ailment, sentence: str, now: float) -> Finding:
    return Finding(
        key=f"fleet/{sort}/{ailment.serial}",
        detector="D-19",
        klass="telemetry_lost",
        stage=Stage.CONFIRMED if ailment.open else Stage.CLEARED,
        entity="platform",
        began=ailment.found_at,
        at=ailment.found_at if ailment.open else now,
        severity="warning" if ailment.open else "info",
        sentence=sentence,
        facts={"nodes": list(ailment.nodes), "fingerprint": sort},
    )


def overrun(state: FleetState, policy: RunPolicy, now: float, witness: Witness) -> list[Finding]:
    """Tell once that nodes have not come back from maintenance five minutes after its declared end."""
    told = state.overrun
    missing = [
        name
        for name in silent_nodes(state, policy, now)
        if name not in witness.kept_out
        and maintenance.late(state.maintenance, name, state.nodes[name].last_at, policy, now)
    ]
    if not missing and not told.open:
        return []
    if missing and not told.open:
        told.open, told.serial, told.found_at = True, told.serial + 1, now
        told.began = now - max(silence_s(state, state.nodes[name], now) for name in missing)
    told.open, told.nodes = bool(missing), missing or told.nodes
    return [_overrun_finding(state, now)]


def _overrun_finding(state: FleetState, now: float) -> Finding:
    told = state.overrun
    count = len(told.nodes)
    who = f"node {told.nodes[0]} is" if count == 1 else f"{count} nodes are"
    words = f"planned maintenance has overrun: {who} still away after its declared end: {listed(told.nodes)}"
    return Finding(
        key=f"fleet/maintenance/{told.serial}",
        detector="D-17",
        klass="capacity",
        stage=Stage.CONFIRMED if told.open else Stage.CLEARED,
        entity="platform",
        began=told.began,
        at=told.found_at if told.open else now,
        severity="critical" if told.open else "info",
        sentence=words if told.open else "the nodes are back from their maintenance",
        facts={"nodes": list(told.nodes), "fingerprint": "maintenance overrun"},
    )
