"""The reducer of the whole fleet: who is silent, and whether so many that nothing is judged.

One run can only see its own nodes. When many nodes fall silent together the cause is
common (a switch, a rack, our own network), and acting on each would hurt more than
the fault; so the fleet holds automation until beats return or people decide
(methods 2, 11.3). A hold never turns into an action by itself.
"""

from collections.abc import Mapping
from typing import Any, Self

from controlplane.domain.detection import (
    codec,
    faults,
    fleet_health,
    fleet_ledger,
    fleet_loss,
    hardware,
    hearing,
    maintenance,
    reading,
    setback,
    sight,
)
from controlplane.domain.detection.fleet_state import NO_WITNESS, FleetNode, FleetState, FleetView, KeptOut, Witness
from controlplane.domain.detection.news import News
from controlplane.domain.detection.policy import RunPolicy
from controlplane.domain.detection.state import MAX_NODES
from controlplane.domain.findings import Finding, Stage
from controlplane.domain.fleet import spares
from controlplane.domain.fleet.scheduling import as_evidence
from controlplane.domain.fleet.spares import Pool
from controlplane.domain.signals import Signal

SNAPSHOT_VERSION = 2
FORGET_S = 86_400.0
MAX_LABEL = 16
DRAINS = frozenset({"draining", "drained"})

ASK_EVERY_S = 30.0
"""How often the ledger is held against the allocations at least (L-04: every minute)."""

__all__ = ["NO_WITNESS", "FleetMachine", "FleetView", "KeptOut", "Witness"]


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
        node.answered = False
        seen = self._state.sight
        seen.last_word = max(signal.received, seen.last_word or signal.received)
        if signal.kind == "node.hello":
            node.labels = _labels(signal.data)
        elif signal.kind == "scheduler.node":
            self._scheduler(signal)
        elif signal.kind == maintenance.KIND:
            maintenance.take(self._state.maintenance, signal)
        if signal.kind in hearing.KINDS:
            hearing.take(node.hearing, signal)
        if signal.kind in faults.KINDS:
            faults.take(self._state.hardware, signal)

    def sweep(self, now: float, witness: Witness = NO_WITNESS) -> list[Finding]:
        """Judge at `now`; give only findings that are new or have changed."""
        state = self._state
        setback.of_fleet(state, self.policy, now)
        found = sight.look(state.sight, self.policy, now, run=None)
        if not sight.frozen(state.sight, now):
            found += fleet_loss.together(state, self.policy, now, witness)
            found += fleet_loss.singles(state, self.policy, now, witness)
            found += fleet_health.overrun(state, self.policy, now, witness)
        found += fleet_health.look(state, self.policy, now)
        found += fleet_ledger.strays(state, now, witness) + fleet_ledger.disputes(state, now, witness)
        if witness.strays is not None:
            state.asked_at = now
            found += self._faults(now, witness)
        if witness.pool is not None:
            found += self._spares(witness.pool, now)
        _forget(state, now)
        return News(state.told).of(found)

    def _spares(self, pool: Pool, now: float) -> list[Finding]:
        """Judge whether the spares last for one lead time; a warning that stands is told until it ends."""
        told = self._state.told.get(spares.KEY)
        standing = told.began if told is not None and told.stage != Stage.CLEARED else None
        judged = spares.judge_spares(pool, now, standing=standing)
        return [judged] if judged is not None else []

    def _faults(self, now: float, witness: Witness) -> list[Finding]:
        """Judge the parts of idle machines; what struck a member of a run is judged there."""
        state = self._state
        for name in witness.members & state.nodes.keys():
            state.nodes[name].member_at = now
        theirs = {
            fault.node
            for fault in state.hardware.faults.values()
            if (node := state.nodes.get(fault.node)) is None or fault.last_at <= (node.member_at or 0.0)
        }
        aside = theirs | witness.members | witness.busy | witness.kept_out
        return hardware.findings(state.hardware, hardware.fleet_scope(self._clock, aside=aside), self.policy, now)

    def _clock(self, node: str, at_ms: int) -> tuple[float, float] | None:
        measured = self.skew(node)
        return (at_ms / 1000 - measured[0], measured[1]) if measured else None

    def asks(self, now: float) -> bool:
        """Say whether the sweep at `now` needs to know more: of the runs' nodes, or what the ledger says by now."""
        ledger_due = now - (self._state.asked_at or 0.0) >= ASK_EVERY_S
        return ledger_due or self.in_doubt(now)

    def in_doubt(self, now: float) -> bool:
        """Say whether somebody is silent, so that the runs are the witnesses."""
        state = self._state
        return state.group.open or bool(state.strays) or bool(fleet_loss.silent_nodes(state, self.policy, now))

    def has_faults(self) -> bool:
        """Say whether any part of a machine is known to have failed, so that it matters whose machine it is."""
        return bool(self._state.hardware.faults)

    def due(self, now: float) -> float | None:
        """Give the earliest moment after `now` at which a sweep could say something new by itself."""
        state, policy = self._state, self.policy
        moments = (sight.due(state.sight, policy, now), fleet_loss.due(state, policy, now))
        return min((moment for moment in moments if moment is not None), default=None)

    def drained(self) -> dict[str, tuple[str, str, int]]:
        """Give the nodes that are drained at the scheduler: the reason, by whom, and since when by its clock (ms)."""
        nodes = self._state.nodes.items()
        return {name: (node.reason, node.owner, node.drained_ms) for name, node in nodes if node.drained_ms >= 0}

    def in_maintenance(self, node: str, now: float) -> bool:
        """Say whether a node's silence is announced at `now`."""
        known = self._state.nodes.get(node)
        last_at = known.last_at if known else None
        return maintenance.excused(self._state.maintenance, node, last_at, self.policy, now)

    def skew(self, node: str) -> tuple[float, float] | None:
        """Give how far a node's clock is ahead of ours and the bound of that, in seconds; None while unknown."""
        known = self._state.nodes.get(node)
        return hearing.skew(known.hearing) if known else None

    def deaf(self, node: str, source: str, now: float) -> bool:
        """Say whether the silence of a node's reader or log means nothing at `now` (methods 11.16)."""
        known = self._state.nodes.get(node)
        return known is not None and hearing.deaf(known.hearing, source, now)

    def awake(self, now: float) -> None:
        """Note that we watched up to `now`, although there was nothing to sweep."""
        self._state.sight.last_sweep = now

    def forget(self, node: str) -> None:
        """Drop a node that was retired on purpose."""
        self._state.nodes.pop(node, None)

    def view(self, now: float | None = None) -> FleetView:
        """Give what a page and the guards need, at `now` or at the last sweep."""
        state = self._state
        at = state.sight.last_sweep or 0.0 if now is None else now
        return FleetView(
            nodes={name: node.last_at for name, node in sorted(state.nodes.items())},
            silent=tuple(fleet_loss.silent_nodes(state, self.policy, at)),
            lost=tuple(state.group.nodes) if state.group.open else (),
            hold=fleet_loss.hold_words(state),
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
        if node is None or signal.said_ms < node.scheduler_ms:
            return
        node.reason, node.owner = reading.text(signal.data, "reason"), reading.text(signal.data, "owner")
        node.scheduler = as_evidence(reading.text(signal.data, "state").lower(), node.reason, node.owner)
        node.scheduler_ms = signal.said_ms
        if node.scheduler not in DRAINS:
            node.drained_ms = -1
        elif node.drained_ms < 0:
            node.drained_ms = signal.at_ms


def _labels(data: Mapping[str, Any]) -> dict[str, str]:
    labels = reading.mapping(data, "labels")
    return {str(key): str(value)[: reading.MAX_TEXT] for key, value in list(labels.items())[:MAX_LABEL]}


def _forget(state: FleetState, now: float) -> None:
    """A node that has been gone for a day no longer counts as watched."""
    maintenance.prune(state.maintenance, now)
    kept = set(state.group.nodes) if state.group.open else set()
    gone = [name for name, node in state.nodes.items() if name not in kept and now - (node.last_at or now) > FORGET_S]
    for name in gone:
        del state.nodes[name]
