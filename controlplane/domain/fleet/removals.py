"""How many nodes automation may take out of the fleet, and how fast (methods 8).

A rule that is wrong about one node is often wrong about all: what it can take out
before somebody looks is bounded. The bucket is read from the ledger itself, so no
restart loses or earns a token.
"""

from collections.abc import Iterable

from controlplane.domain.recovery.guards import TokenBucket

CAPACITY = 4
CAPACITY_SHARE = 0.02
REFILL_SHARE_PER_H = 0.01
HOUR_S = 3_600.0


def capacity(nodes: int) -> float:
    """Give how many may follow each other at once in a fleet of `nodes`."""
    return float(max(CAPACITY, int(CAPACITY_SHARE * nodes)))


def refill_s(nodes: int) -> float:
    """Give the time until one more may be taken out."""
    return HOUR_S / (REFILL_SHARE_PER_H * max(1, nodes))


def horizon_s(nodes: int) -> float:
    """Give how far back exclusions count: an empty bucket is full again by then."""
    return capacity(nodes) * refill_s(nodes)


def bucket(nodes: int, taken: Iterable[float], now: float) -> TokenBucket:
    """Give the bucket of the fleet at `now` after the exclusions at the times `taken`, seconds since the epoch."""
    size = capacity(nodes)
    state = TokenBucket(capacity=size, refill_s=refill_s(nodes), tokens=size, refilled_at=now - horizon_s(nodes))
    for at in sorted(taken):
        _, state = state.take(at)
    return state.at(now)
