"""Find the record of a rank or node in a run's state, or make it; both are bounded."""

from controlplane.domain.detection.state import MAX_NODES, MAX_RANKS, NodeState, RankState, RunState
from controlplane.domain.signals import Signal


def node_of(state: RunState, name: str) -> NodeState | None:
    """Give the record of a node, None when there are too many."""
    if name not in state.nodes and len(state.nodes) < MAX_NODES:
        state.nodes[name] = NodeState()
    return state.nodes.get(name)


def rank_of(state: RunState, signal: Signal) -> RankState | None:
    """Give the record of the rank that a signal speaks of in the current attempt."""
    attempt = state.attempt
    if attempt is None or signal.rank is None or not 0 <= signal.rank < MAX_RANKS:
        return None
    rank = attempt.ranks.setdefault(signal.rank, RankState())
    if not rank.node:
        rank.node = signal.node
    return rank


def raise_high_water(state: RunState, step: int, at: float) -> None:
    """Note a step that is further than any before, whatever attempt made it."""
    if step > state.high_water_step:
        state.high_water_step, state.high_water_at = step, at
