"""How often a node has failed, and what that asks for before it trains again (methods 8, L-03).

Strikes stay for years and fade slowly: one offence is forgiven for every thirty days
without another. A node on probation counts double.
"""

from collections.abc import Iterable
from dataclasses import dataclass

DAY_S = 86_400.0
FADE_S = 30 * DAY_S
PROBATION_S = DAY_S
BURN_IN_S = 2 * 3_600.0
BURN_IN_CAP_S = 72 * 3_600.0
HARDWARE_BURN_IN_S = DAY_S
TICKETS = ((7 * DAY_S, 2), (30 * DAY_S, 3))
"""So many strikes within so long: not again without a repair (1 node in 1,000 by chance)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """One entry of a node's record: a strike, or its release to the pool."""

    at: float
    strike: bool = False
    release: bool = False


def offences(marks: Iterable[Mark], now: float) -> int:
    """Count the offences that stand at `now`: strikes, double on probation, less what has faded."""
    count, since, released = 0, 0.0, None
    for mark in sorted(marks, key=lambda item: item.at):
        if mark.at > now:
            break
        if mark.release:
            released = mark.at
        if mark.strike:
            before = _faded(count, since, mark.at)
            count = before + (2 if before and _on_probation(released, mark.at) else 1)
            since = mark.at
    return _faded(count, since, now)


def _faded(count: int, since: float, now: float) -> int:
    return max(0, count - int((now - since) // FADE_S))


def _on_probation(released: float | None, now: float) -> bool:
    return released is not None and now - released < PROBATION_S


def burn_in_s(count: int, *, hardware: bool) -> float:
    """Give how long a node with `count` offences is tested first: 2, 8, 32, 72 h, and a day at least for hardware."""
    floor = HARDWARE_BURN_IN_S if hardware else BURN_IN_S
    return min(BURN_IN_CAP_S, max(floor, BURN_IN_S * 4.0 ** max(0, count - 1)))


def needs_repair(marks: Iterable[Mark], now: float) -> bool:
    """Say whether it failed so often lately that a test alone does not bring it back."""
    strikes = [mark.at for mark in marks if mark.strike and mark.at <= now]
    return any(sum(now - at < window for at in strikes) >= many for window, many in TICKETS)
