"""Judge silence in the fleet: one idle node, or many nodes at once (methods 2, 11.3)."""

from collections.abc import Iterable

from controlplane.domain.detection.fleet_state import FleetNode, FleetState, GroupLoss, Witness
from controlplane.domain.detection.policy import RunPolicy
from controlplane.domain.findings import Finding, Stage

DETECTOR = "D-08"
BURST = 3
DOMAIN_LABELS = ("rack", "switch", "zone")
DOWN = frozenset({"down", "drained", "fail", "failed"})


def silence_s(state: FleetState, node: FleetNode, now: float) -> float:
    """Seconds without a word, as far as we were listening; 0 for a node that never spoke."""
    return 0.0 if node.last_at is None else now - max(node.last_at, state.sight.resumed_at)


def silent_nodes(state: FleetState, policy: RunPolicy, now: float) -> list[str]:
    """Give the nodes that have said nothing for `silence_s` and more."""
    return [name for name, node in sorted(state.nodes.items()) if silence_s(state, node, now) >= policy.silence_s]


def _last(state: FleetState, name: str) -> float:
    return state.nodes[name].last_at or 0.0


def _burst(state: FleetState, names: Iterable[str], policy: RunPolicy) -> list[str]:
    """Give the largest set of silent nodes whose last words lie within one burst."""
    ordered = sorted(names, key=lambda name: _last(state, name))
    best: list[str] = []
    first = 0
    for last, name in enumerate(ordered):
        while _last(state, name) - _last(state, ordered[first]) > policy.burst_s:
            first += 1
        if last - first + 1 > len(best):
            best = ordered[first : last + 1]
    return best


def together(state: FleetState, policy: RunPolicy, now: float, witness: Witness) -> list[Finding]:
    """Judge nodes that fell silent together: one finding for all, however many."""
    silent, group = set(silent_nodes(state, policy, now)), state.group
    if group.open and silent.isdisjoint(group.nodes):
        group.open = False
        return [_group_finding(state, group, Stage.CLEARED, now)]
    lost = _burst(state, silent, policy)
    if group.open:
        lost = sorted(silent & {*group.nodes, *lost})
    elif len(lost) < BURST or _nobody_speaks(state, policy, now):
        return []
    if not group.open:
        _open(state, group, lost, now)
    group.nodes = sorted(lost)
    if not _judgegroup(state, policy, witness):
        return []
    return [_group_finding(state, group, Stage.CONFIRMED, group.found_at)]


def _open(state: FleetState, group: GroupLoss, lost: list[str], now: float) -> None:
    group.serial += 1
    group.open, group.found_at, group.klass = True, now, ""
    group.began = min(_last(state, name) for name in lost)


def _nobody_speaks(state: FleetState, policy: RunPolicy, now: float) -> bool:
    """The last ones are about to fall silent too: then it is we who do not hear."""
    return now - (state.sight.last_word or now) > 2 * policy.heartbeat_s


def _judgegroup(state: FleetState, policy: RunPolicy, witness: Witness) -> bool:
    """Hold at once; give a class once the runs have shown whether they advance.

    An advancing run is the perfect witness that only telemetry is lost.
    """
    group = state.group
    unseen = witness.advancing.issuperset(group.nodes)
    waiting = ({*group.nodes} & witness.busy) - witness.advancing - witness.stalled
    if not waiting or group.klass:
        group.klass = "telemetry_lost" if unseen else "correlated_loss"
    group.why = "" if unseen else _why_hold(state, group.nodes, policy, witness)
    group.hold = bool(group.why)
    return bool(group.klass)


def _why_hold(state: FleetState, lost: list[str], policy: RunPolicy, witness: Witness) -> str:
    """Say why automation holds, "" when the loss has one place or is confirmed (methods 2)."""
    watched = len(state.nodes)
    if len(lost) > max(policy.hold_floor, policy.hold_share * watched):
        return f"{len(lost)} of {watched} nodes fell silent together"
    sure = witness.stalled.issuperset(lost) and all(state.nodes[name].scheduler in DOWN for name in lost)
    if sure or _domain(state, lost):
        return ""
    return f"{len(lost)} nodes in several places fell silent together and nothing else confirms it"


def _domain(state: FleetState, names: list[str]) -> str:
    """Give the failure domain that all of them share, `rack:r3`, or ""."""
    for label in DOMAIN_LABELS:
        values = {state.nodes[name].labels.get(label, "") for name in names if name in state.nodes}
        if len(values) == 1 and "" not in values and not _everyone_in(state, label, next(iter(values))):
            return f"{label}:{values.pop()}"
    return ""


def _everyone_in(state: FleetState, label: str, value: str) -> bool:
    """A label that every node shares tells nothing."""
    return all(node.labels.get(label) == value for node in state.nodes.values())


def hold_words(state: FleetState) -> str:
    """Say why automation holds, "" when it does not."""
    if state.sight.blind:
        return "no node is heard"
    return state.group.why if state.group.open and state.group.hold else ""


def _group_finding(state: FleetState, group: GroupLoss, stage: Stage, at: float) -> Finding:
    count, domain = len(group.nodes), _domain(state, group.nodes)
    held = f"; automation holds, because {group.why}" if group.hold else ""
    where = f" in {domain.replace(':', ' ')}" if domain else ""
    words = f"{count} nodes{where} fell silent together{held}"
    if stage is Stage.CLEARED:
        words = "the nodes that fell silent together speak again; automation goes on"
    return Finding(
        key=f"fleet/group/{group.serial}",
        detector=DETECTOR,
        klass=group.klass,
        stage=stage,
        entity=f"domain:{domain.partition(':')[2]}" if domain else "platform",
        began=group.began,
        at=at,
        severity="info" if stage is Stage.CLEARED else "critical" if group.hold else "warning",
        sentence=words,
        facts={"nodes": list(group.nodes), "hold": group.hold, "watched": len(state.nodes), "domain": domain},
    )


def singles(state: FleetState, policy: RunPolicy, now: float, witness: Witness) -> list[Finding]:
    """Tell of single idle nodes whose telemetry is lost; those of a run are the run's to judge."""
    grouped = set(state.group.nodes) if state.group.open else set()
    found = []
    for name, node in sorted(state.nodes.items()):
        silent_s = silence_s(state, node, now)
        if node.told_at is not None and silent_s < policy.silence_s:
            found.append(_single_finding(name, node, Stage.CLEARED, now))
            node.told_at = None
        elif node.told_at is not None:
            found.append(_single_finding(name, node, Stage.CONFIRMED, node.told_at))
        elif silent_s >= policy.telemetry_ticket_s and name not in witness.busy | grouped:
            node.told_at, node.told_serial = now, node.told_serial + 1
            found.append(_single_finding(name, node, Stage.CONFIRMED, now))
    return found


def _single_finding(name: str, node: FleetNode, stage: Stage, at: float) -> Finding:
    quiet = f"node {name}, which runs nothing, has been silent for minutes"
    return Finding(
        key=f"fleet/silent/{name}/{node.told_serial}",
        detector="D-07",
        klass="telemetry_lost",
        stage=stage,
        entity=f"node:{name}",
        began=node.last_at or at,
        at=at,
        severity="info" if stage is Stage.CLEARED else "warning",
        sentence=f"node {name} speaks again" if stage is Stage.CLEARED else quiet,
        facts={"nodes": [name]},
    )
