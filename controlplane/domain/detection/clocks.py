"""What the clocks of a run's nodes are worth as evidence (methods 7).

Stamps of different machines may be compared only within the measured bound; where a
clock is not known, who was first is not known either.
"""

from controlplane.domain.detection import hearing
from controlplane.domain.detection.state import RunState


def skew(state: RunState, node: str) -> tuple[float, float] | None:
    """Give how far a node's clock is ahead of ours and the bound of that, in seconds; None while unknown."""
    known = state.nodes.get(node)
    return hearing.skew(known.hearing) if known is not None else None


def bound(state: RunState, node: str) -> float | None:
    """Give how far a corrected stamp of the node may be off in seconds, None for an unknown clock."""
    measured = skew(state, node)
    return measured[1] if measured else None


def true_time(state: RunState, node: str, at_ms: int) -> float | None:
    """Give a stamp of the node by our clock in seconds, None for an unknown clock."""
    measured = skew(state, node)
    return at_ms / 1000 - measured[0] if measured else None


def deaf(state: RunState, node: str, source: str, now: float) -> bool:
    """Say whether the silence of a node's reader or log means nothing at `now` (methods 11.16)."""
    known = state.nodes.get(node)
    return known is not None and hearing.deaf(known.hearing, source, now)
