"""Keep one node that runs wild from taking the others' share."""

import math

RATE_PER_S = 200.0
"""Requests per second that one node may keep up."""
BURST = 1000.0
"""Requests at once after a rest: a spool that empties after an outage."""
MAX_BUCKETS = 20_000
"""Nodes remembered; a full one is forgotten first, it loses nothing by it."""


class RateLimit:
    """A token bucket per node; `now` is in seconds on any steady clock."""

    def __init__(self, rate_per_s: float = RATE_PER_S, burst: float = BURST) -> None:
        """Start with every bucket full."""
        self._rate = rate_per_s
        self._burst = burst
        self._buckets: dict[str, tuple[float, float]] = {}

    def spend(self, node: str, now: float) -> int | None:
        """Take one token; None when there was one, else the whole seconds to wait."""
        left, at = self._buckets.get(node, (self._burst, now))
        left = min(self._burst, left + (now - at) * self._rate)
        if left < 1.0:
            self._buckets[node] = (left, now)
            return max(1, math.ceil((1.0 - left) / self._rate))
        self._buckets[node] = (left - 1.0, now)
        if len(self._buckets) > MAX_BUCKETS:
            self._forget(now)
        return None

    def _forget(self, now: float) -> None:
        refilled = now - self._burst / self._rate
        self._buckets = {node: bucket for node, bucket in self._buckets.items() if bucket[1] > refilled}
        while len(self._buckets) > MAX_BUCKETS:
            self._buckets.pop(next(iter(self._buckets)))
