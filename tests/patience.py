"""How long things may take on a machine that does other things as well.

A limit on time is a promise about a machine with processors to spare. The workers of a
test run, and whatever else it has to do, share them: then everything takes as many times
longer as programs outnumber processors, and the limit must not fail for that.
"""

import os

MOST = 6.0
"""Beyond it a limit would prove nothing."""


def within(seconds: float) -> float:
    """Return a limit in seconds that means `seconds` on a quiet machine."""
    crowd = 2 * os.getloadavg()[0] / (os.cpu_count() or 1)
    return seconds * min(MOST, max(1.0, crowd))
