"""How often things fail, and how sure we are (methods 4 and 6).

Failures are counted over an exposure; the rate is Gamma distributed around what was
seen, with a weak prior until the fleet has its own history. Exact to about 1e-12 by
the incomplete gamma function, without anything but the standard library.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import exp, isinf, lgamma, log

MAX_TERMS = 10_000
EPSILON = 1e-15
BISECTIONS = 200
LEVEL = 0.90

PRIOR_FAILURES = 1.0
PRIOR_PER_NODE_DAY = 6.5e-3
"""Failures per node and day of a large accelerator cluster (methods 4)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """A rate per unit of exposure, with the interval that holds it with a chance of 90 %."""

    mean: float
    low: float
    high: float


def gamma_cdf(shape: float, value: float) -> float:
    """Give P(X <= value) of a Gamma variable with scale 1, the regularised lower incomplete gamma function."""
    if value <= 0:
        return 0.0
    if isinf(value):
        return 1.0
    scale = exp(shape * log(value) - value - lgamma(shape))
    if value < shape + 1:
        return min(1.0, scale * sum(_series(shape, value)))
    return max(0.0, 1.0 - scale * _fraction(shape, value))


def _series(shape: float, value: float) -> Iterator[float]:
    """Give the terms of the power series, which converges fast below the mean."""
    term, total = 1 / shape, 0.0
    for number in range(1, MAX_TERMS):
        yield term
        total += term
        term *= value / (shape + number)
        if term < total * EPSILON:
            return


def _fraction(shape: float, value: float) -> float:
    """Give the upper tail's continued fraction, which converges fast above the mean, by Lentz' method."""
    tiny = 1e-300
    below = value + 1 - shape
    upper, lower = 1 / tiny, 1 / below
    result = lower
    for number in range(1, MAX_TERMS):
        factor = -number * (number - shape)
        below += 2
        lower = 1 / ((factor * lower + below) or tiny)
        upper = (below + factor / upper) or tiny
        change = lower * upper
        result *= change
        if abs(change - 1) < EPSILON:
            break
    return result


def gamma_quantile(shape: float, exposure: float, chance: float) -> float:
    """Give the rate below which a Gamma(shape, exposure) variable stays with `chance`, by bisection."""
    low, high = 0.0, shape + 1.0
    while gamma_cdf(shape, high) < chance:
        high *= 2
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if gamma_cdf(shape, middle) < chance else (low, middle)
    return (low + high) / 2 / exposure


def poisson_sf(count: int, mean: float) -> float:
    """Give P(X > count) of a Poisson variable."""
    return 1.0 if count < 0 else gamma_cdf(count + 1, mean)


def gamma_rate(shape: float, exposure: float) -> Rate:
    """Give mean and interval of a Gamma distributed rate."""
    tail = (1 - LEVEL) / 2
    return Rate(
        mean=shape / exposure,
        low=gamma_quantile(shape, exposure, tail),
        high=gamma_quantile(shape, exposure, 1 - tail),
    )


def garwood(failures: int, exposure: float) -> Rate:
    """Give what `failures` over `exposure` say without any prior: the exact interval of a Poisson count."""
    tail = (1 - LEVEL) / 2
    return Rate(
        mean=failures / exposure,
        low=gamma_quantile(failures, exposure, tail) if failures else 0.0,
        high=gamma_quantile(failures + 1, exposure, 1 - tail),
    )


@lru_cache(maxsize=1024)
def failure_rate(failures: int, days: float, nodes: int) -> Rate:
    """Give the failures per day of `nodes` nodes, of which `failures` were seen in `days` days."""
    prior_days = PRIOR_FAILURES / (max(1, nodes) * PRIOR_PER_NODE_DAY)
    return gamma_rate(PRIOR_FAILURES + failures, prior_days + max(0.0, days))
