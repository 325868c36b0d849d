"""What keeps automation from doing harm by repetition: tokens, pauses and shares.

Every automatic restart costs a restore and half a checkpoint interval, so a fault
that comes back must not be answered at the same pace for ever (methods 8). The
counters are plain values; whoever stores them spends them under one key each.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Self

from controlplane.domain.detection.policy import RunPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenBucket:
    """Tokens left at `refilled_at` (seconds since the epoch)."""

    capacity: float
    refill_s: float
    tokens: float
    refilled_at: float

    @classmethod
    def full(cls, policy: RunPolicy, now: float) -> Self:
        """Give a run its first bucket."""
        capacity = float(policy.restart_capacity)
        return cls(capacity=capacity, refill_s=policy.restart_refill_s, tokens=capacity, refilled_at=now)

    def at(self, now: float) -> Self:
        """Earn what the time since `refilled_at` is worth; a clock that went back earns nothing."""
        earned = max(0.0, now - self.refilled_at) / self.refill_s
        tokens = min(self.capacity, self.tokens + earned)
        return type(self)(
            capacity=self.capacity, refill_s=self.refill_s, tokens=tokens, refilled_at=max(now, self.refilled_at)
        )

    def take(self, now: float) -> tuple[bool, Self]:
        """Try to spend one token; give whether it was there and the bucket afterwards."""
        filled = self.at(now)
        if filled.tokens < 1:
            return False, filled
        spent = type(self)(
            capacity=self.capacity,
            refill_s=self.refill_s,
            tokens=filled.tokens - 1,
            refilled_at=filled.refilled_at,
        )
        return True, spent

    def has_token(self, now: float) -> bool:
        """Say whether `take` would succeed."""
        return self.at(now).tokens >= 1

    def next_token_s(self, now: float) -> float:
        """Seconds until there is a token, 0 when there is one."""
        return max(0.0, (1 - self.at(now).tokens) * self.refill_s)


def backoff_s(fruitless: int, policy: RunPolicy) -> float:
    """Pause before the next restart after `fruitless` ones without durable progress.

    30, 60, 120 … seconds with a cap; the first restart waits for nothing (methods 8).
    """
    if fruitless < 1:
        return 0.0
    doublings = min(fruitless - 1, 32)
    return min(policy.backoff_cap_s, policy.backoff_s * 2.0**doublings)


def unsettled(launches: Sequence[float], saves: Sequence[float], now: float, policy: RunPolicy) -> int:
    """Count the newest restarts in a row that did not hold.

    One held when it brought a durable checkpoint and then nobody had to restart for half
    an hour (methods 8). `launches` and `saves` are times; the order does not matter.
    """
    count, until = 0, now
    for at in sorted(launches, reverse=True):
        if until - at >= policy.backoff_reset_s and any(at < saved <= until for saved in saves):
            break
        count, until = count + 1, at
    return count


RUNS_AT_ONCE = 2
"""As many runs may be acted on within the blast window without a person (methods 8)."""
RUNS_SHARE = 0.10


def runs_at_once(runs: int, *, floor: int = RUNS_AT_ONCE) -> int:
    """How many runs of `runs` automation may act on within the blast window; a share has a floor (methods 11.3)."""
    return max(floor, int(runs * RUNS_SHARE))


def node_budget(nodes: int, policy: RunPolicy) -> int:
    """How many of a run's nodes may be replaced without a person; one at least (methods 11.3)."""
    return max(1, int(nodes * policy.max_share))


def within_share(excluded: Collection[str], nodes: int, policy: RunPolicy) -> bool:
    """Say whether leaving out `excluded` stays inside the share."""
    return len(excluded) <= node_budget(nodes, policy)


def may_be_one_persons(touched: int, fleet: int, policy: RunPolicy) -> bool:
    """Say whether one person may decide to leave out so many nodes of a fleet, or two have to."""
    return touched <= max(1, int(fleet * policy.two_person_share))


def may_move_again(*, moved_at: float, by_person: bool, now: float, fatal: bool, policy: RunPolicy) -> bool:
    """Say whether automation may change a node's state again (methods 8).

    `moved_at` is when it last changed. A fresh fatal fault is never kept back: resting
    holds back second opinions, it shields no fault (methods 11.8).
    """
    return fatal or by_person or now - moved_at >= policy.node_rest_s
