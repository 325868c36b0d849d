"""Which node was there whenever it went wrong, and never when it went well (methods 11.14)."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

MIN_FAILURES = 3
MOST = 3.0
MAX_SHARING = 4
"""More nodes than these that kept the same company identify none of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """One attempt: its nodes, and whether it failed; one that still runs is left out by the caller."""

    nodes: frozenset[str]
    failed: bool


def company_kept(launches: Sequence[Launch]) -> Mapping[str, float]:
    """Give what each node earns: +1 per failing attempt beyond the first, at most +3.

    It takes three failing attempts and one good one to compare with, and nodes that
    share the company share the weight as well.
    """
    bad = [launch.nodes for launch in launches if launch.failed]
    good = [launch.nodes for launch in launches if not launch.failed]
    if len(bad) < MIN_FAILURES or not good:
        return {}
    always = frozenset.intersection(*bad) - frozenset().union(*good)
    if not 0 < len(always) <= MAX_SHARING:
        return {}
    weight = min(MOST, len(bad) - 1.0) / math.log2(1 + len(always))
    return {f"node:{name}": weight for name in sorted(always)}
