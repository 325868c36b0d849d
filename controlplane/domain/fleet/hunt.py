"""How to find one slow node when no measurement of the run names it (methods 3, locate b and c).

Either all nodes run a benchmark at once, or some are left out and the run is started
again. How often to repeat, and how many to leave out each time, follows from the noise and from
the spares: both are numbers that a person can check.
"""

from dataclasses import dataclass
from functools import cache
from math import ceil
from statistics import NormalDist

FALSE_SHARE = 0.01
MISS_SHARE = 0.01
TRIAL_ERROR = 0.005
MAX_NODES = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class ExclusionPlan:
    """How the culprit among `nodes` is found by leaving nodes out and starting again.

    `leave_out` nodes first; when the run is as fast as before, the culprit is among them.
    `expected` and `worst` count the starts until one node is left.
    """

    nodes: int
    leave_out: int
    expected: float
    worst: int


def exclusion_plan(nodes: int, spares: int) -> ExclusionPlan:
    """Plan the search among `nodes` with `spares` nodes to stand in; raise `ValueError` when it cannot be done."""
    if spares < 1 or not 1 <= nodes <= MAX_NODES:
        raise ValueError("needs at least one spare, and between one and 4096 nodes")
    return _plans(nodes, min(spares, nodes))[nodes]


@cache
def _plans(nodes: int, spares: int) -> tuple[ExclusionPlan, ...]:
    """Give the best plan for every number of suspects up to `nodes`, by dynamic programming."""
    plans = [ExclusionPlan(nodes=count, leave_out=0, expected=0.0, worst=0) for count in range(2)]
    for count in range(2, nodes + 1):
        # More than half never pays: the other half is the same question.
        choices = range(1, min(spares, count // 2) + 1)
        plans.append(
            min((_split(plans, count, size) for size in choices), key=lambda plan: (plan.expected, plan.worst))
        )
    return tuple(plans)


def _split(plans: list[ExclusionPlan], count: int, size: int) -> ExclusionPlan:
    among, rest = plans[size], plans[count - size]
    expected = 1 + (size * among.expected + (count - size) * rest.expected) / count
    return ExclusionPlan(nodes=count, leave_out=size, expected=expected, worst=1 + max(among.worst, rest.worst))


def benchmark_repeats(nodes: int, *, sigma: float, delta: float) -> int:
    """Give how often each of `nodes` repeats a benchmark to find a loss of `delta` (share of the median).

    `sigma` is the relative standard deviation of one repeat. At most 1 % of the hunts blame
    a good node, at most 1 % miss the slow one.
    """
    normal = NormalDist()
    distance = normal.inv_cdf(1 - FALSE_SHARE / nodes) + normal.inv_cdf(1 - MISS_SHARE)
    return ceil((distance * sigma / delta) ** 2)


def trial_steps(*, sigma: float, drop: float) -> int:
    """Give how many steps tell whether a `drop` is gone, each kind of error at most 0.5 %."""
    distance = 2 * NormalDist().inv_cdf(1 - TRIAL_ERROR)
    return ceil((distance * sigma / drop) ** 2)
