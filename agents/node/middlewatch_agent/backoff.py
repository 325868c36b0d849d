"""When to try again: exponential with full jitter, and never before the server allows it.

A thousand agents lose the control plane in the same second; full jitter spreads
their return over the whole interval instead of beating on it in step.
"""

import random
from dataclasses import dataclass, field

RETRY_AFTER_MAX_S = 600.0
MAX_DOUBLINGS = 16


@dataclass(slots=True, kw_only=True)
class Backoff:
    """Waiting times in seconds for consecutive failures."""

    first_s: float = 0.5
    max_s: float = 15.0
    dice: random.Random = field(default_factory=random.Random)
    failures: int = 0

    def failed(self, retry_after_s: float = 0.0) -> float:
        """Count a failure and give the time to wait; `retry_after_s` is the server's own word."""
        ceiling = min(self.max_s, self.first_s * 2.0 ** min(self.failures, MAX_DOUBLINGS))
        self.failures += 1
        return min(retry_after_s, RETRY_AFTER_MAX_S) + self.dice.uniform(0.0, ceiling)

    def succeeded(self) -> None:
        """Start from the beginning again."""
        self.failures = 0
