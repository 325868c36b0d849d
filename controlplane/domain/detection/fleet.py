"""The reducer of the whole fleet: who is silent, and whether so many that nothing is judged.

One run can only see its own nodes. When many nodes fall silent together the cause is
common (a switch, a rack, our own network), and acting on each would hurt more than
the fault; so the fleet holds automation until beats return or people decide
(methods 2, 11.3). A hold never turns into an action by itself.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from controlplane.domain.detection import codec, reading, sight
from controlplane.domain.detection.news import News
from controlplane.domain.detection.policy import RunPolicy
from controlplane.domain.detection.state import MAX_NODES, SightState, Told
from controlplane.domain.findings import Finding, Stage
from controlplane.domain.signals import Signal

SNAPSHOT_VERSION = 1
DETECTOR = "D-08"
BURST = 3
FORGET_S = 86_400.0
DOMAIN_LABELS = ("rack", "switch", "zone")
DOWN = frozenset({"down", "drained", "fail", "failed"})
MAX_LABEL = 16


@dataclass(slots=True)
class FleetNode:
    """One node as the fleet's reducer sees it."""

    last_at: float | None = None
    labels: dict[str, str] = field(default_factory=dict)
    scheduler: str = ""
    scheduler_ms: int = -1
    told_serial: int = 0
    told_at: float | None = None


@dataclass(slots=True)
class GroupLoss:
    """Nodes that fell silent together."""

    serial: int = 0
    open: bool = False
    began: float = 0.0
    found_at: float = 0.0
    klass: str = ""
    hold: bool = False
    why: str = ""
    nodes: list[str] = field(default_factory=list)


@dataclass(slots=True)
class FleetState:
    """Everything that the fleet's reducer remembers."""

    nodes: dict[str, FleetNode] = field(default_factory=dict)
    group: GroupLoss = field(default_factory=GroupLoss)
    sight: SightState = field(default_factory=SightState)
    told: dict[str, Told] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Witness:
    """What the runs say of nodes: `busy` in a live attempt, `advancing` where it steps, `stalled` where it does not."""

    busy: frozenset[str] = frozenset()
    advancing: frozenset[str] = frozenset()
    stalled: frozenset[str] = frozenset()


NO_WITNESS = Witness()


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetView:
    """The fleet as its reducer sees it; `hold` is the reason to hold automation, "" for none."""

    nodes: Mapping[str, float | None]
    silent: tuple[str, ...]
    lost: tuple[str, ...]
    hold: str
    blind: bool
    frozen: bool


class FleetMachine:
    """Judges the fleet; all times are seconds since the epoch."""

    def __init__(self, policy: RunPolicy | None = None, state: FleetState | None = None) -> None:
        """Watch under `policy`, from nothing or from a restored state."""
        self.policy = policy or RunPolicy()
        self._state = state or FleetState()

    def observe(self, signal: Signal, now: float) -> None:  # noqa: ARG002 - liveness rests on `received`
        """Take one signal of any node in; each is a sign of life of its sender."""
        node = self._node(signal.node)
        if node is None:
            return
        node.last_at = max(signal.received, node.last_at or signal.received)
        seen = self._state.sight
        seen.last_word = max(signal.received, seen.last_word or signal.received)
        if signal.kind == "node.hello":
            node.labels = _labels(signal.data)
        elif signal.kind == "scheduler.node":
            self._scheduler(signal)

    def sweep(self, now: float, witness: Witness = NO_WITNESS) -> list[Finding]:
        """Judge at `now`; give only findings that are new or have changed."""
        state = self._state
        found = sight.look(state.sight, self.policy, now, run=None)
        if not sight.frozen(state.sight, now):
            found += _group(state, self.policy, now, witness)
            found += _singles(state, self.policy, now, witness)
        _forget(state, now)
        return News(state.told).of(found)

    def forget(self, node: str) -> None:
        """Drop a node that was retired on purpose."""
        self._state.nodes.pop(node, None)

    def view(self, now: float | None = None) -> FleetView:
        """Give what a page and the guards need, at `now` or at the last sweep."""
        state = self._state
        at = state.sight.last_sweep or 0.0 if now is None else now
        return FleetView(
            nodes={name: node.last_at for name, node in sorted(state.nodes.items())},
            silent=tuple(_silent(state, self.policy, at)),
            lost=tuple(state.group.nodes) if state.group.open else (),
            hold=_hold_words(state),
            blind=state.sight.blind,
            frozen=sight.frozen(state.sight, at),
        )

    def snapshot(self) -> dict[str, Any]:
        """Give the whole state in JSON types."""
        return {"version": SNAPSHOT_VERSION, "state": codec.dump(self._state)}

    @classmethod
    def restore(cls, snapshot: Mapping[str, Any], policy: RunPolicy | None = None) -> Self:
        """Go on from a snapshot; one that is empty or of another version begins anew."""
        if snapshot.get("version") != SNAPSHOT_VERSION:
            return cls(policy)
        return cls(policy, codec.load(FleetState, snapshot["state"]))

    def _node(self, name: str) -> FleetNode | None:
        nodes = self._state.nodes
        if name not in nodes and len(nodes) < MAX_NODES:
            nodes[name] = FleetNode()
        return nodes.get(name)

    def _scheduler(self, signal: Signal) -> None:
        node = self._state.nodes.get(reading.text(signal.data, "node"))
        if node is not None and signal.at_ms >= node.scheduler_ms:
            node.scheduler, node.scheduler_ms = reading.text(signal.data, "state").lower(), signal.at_ms


def _labels(data: Mapping[str, Any]) -> dict[str, str]:
    labels = reading.mapping(data, "labels")
    return {str(key): str(value)[: reading.MAX_TEXT] for key, value in list(labels.items())[:MAX_LABEL]}


def _silence_s(state: FleetState, node: FleetNode, now: float) -> float:
    return 0.0 if node.last_at is None else now - max(node.last_at, state.sight.resumed_at)


def _silent(state: FleetState, policy: RunPolicy, now: float) -> list[str]:
    return [name for name, node in sorted(state.nodes.items()) if _silence_s(state, node, now) >= policy.silence_s]


def _last(state: FleetState, name: str) -> float:
    return state.nodes[name].last_at or 0.0


def _together(state: FleetState, names: Iterable[str], policy: RunPolicy) -> list[str]:
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


def _group(state: FleetState, policy: RunPolicy, now: float, witness: Witness) -> list[Finding]:
    silent, group = set(_silent(state, policy, now)), state.group
    if group.open and silent.isdisjoint(group.nodes):
        group.open = False
        return [_group_finding(state, group, Stage.CLEARED, now)]
    lost = _together(state, silent, policy)
    if group.open:
        lost = sorted(silent & {*group.nodes, *lost})
    elif len(lost) < BURST:
        return []
    if not group.open:
        _open(state, group, lost, now)
    group.nodes = sorted(lost)
    _judge_group(state, policy, witness)
    return [_group_finding(state, group, Stage.CONFIRMED, group.found_at)]


def _open(state: FleetState, group: GroupLoss, lost: list[str], now: float) -> None:
    group.serial += 1
    group.open, group.found_at = True, now
    group.began = min(_last(state, name) for name in lost)


def _judge_group(state: FleetState, policy: RunPolicy, witness: Witness) -> None:
    """Advancing runs are the perfect witness that only telemetry is lost."""
    group = state.group
    unseen = witness.advancing.issuperset(group.nodes)
    group.klass = "telemetry_lost" if unseen else "correlated_loss"
    group.why = "" if unseen else _why_hold(state, group.nodes, policy, witness)
    group.hold = bool(group.why)


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


def _hold_words(state: FleetState) -> str:
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


def _singles(state: FleetState, policy: RunPolicy, now: float, witness: Witness) -> list[Finding]:
    """Tell of single idle nodes whose telemetry is lost; those of a run are the run's to judge."""
    grouped = set(state.group.nodes) if state.group.open else set()
    found = []
    for name, node in sorted(state.nodes.items()):
        silent_s = _silence_s(state, node, now)
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


def _forget(state: FleetState, now: float) -> None:
    """A node that has been gone for a day no longer counts as watched."""
    kept = set(state.group.nodes) if state.group.open else set()
    gone = [name for name, node in state.nodes.items() if name not in kept and now - (node.last_at or now) > FORGET_S]
    for name in gone:
        del state.nodes[name]
