"""The chart that finds a small lasting slow-down in noisy step times (methods 3).

A one-sided CUSUM adds up by how much each step exceeds its usual time and a slack `k`;
it forgets at every fast step and speaks when the sum passes `h` standard deviations. Each step counts
at most a bounded amount, so that single late steps, however late, never add up to an alarm;
yet always more than `k`, or a large slow-down would stay invisible.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp
from statistics import median

MAD_TO_SIGMA = 1.4826
CAP_SIGMAS = 4.0
CAP_OVER_K_SIGMAS = 1.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A slack `k` (share of the usual step time) and a height `h` (in standard deviations)."""

    k: float
    h: float

    def add(self, total: float, excess: float, sigma: float) -> float:
        """Give the sum after one more step of relative `excess` (0.05: 5 % over the usual time)."""
        return max(0.0, total + capped(excess, self.k, sigma) - self.k)

    def speaks(self, total: float, sigma: float) -> bool:
        """Say whether the sum has passed the height."""
        return total > self.h * sigma


def capped(excess: float, k: float, sigma: float) -> float:
    """Limit what one step can add: at most four standard deviations, always more than `k`."""
    return min(excess, max(CAP_SIGMAS * sigma, k + CAP_OVER_K_SIGMAS * sigma))


def robust_sigma(values: Sequence[float], middle: float) -> float:
    """Give the standard deviation by the median distance from `middle`, in the unit of `values`."""
    return MAD_TO_SIGMA * median(abs(value - middle) for value in values)


def run_length(k: float, h: float) -> float:
    """Give the mean number of steps to a false alarm on normal noise, `k` and `h` in standard deviations (Siegmund)."""
    barrier = h + 1.166
    return (exp(2 * k * barrier) - 1 - 2 * k * barrier) / (2 * k * k)
