"""A line of a few numbers as points of a small SVG."""

from collections.abc import Sequence

WIDTH = 120.0
HEIGHT = 24.0
PAD = 2.0


def points(values: Sequence[float]) -> str:
    """Scale values into `WIDTH` by `HEIGHT`, from zero to the greatest; empty when there are fewer than two."""
    if len(values) < 2:  # noqa: PLR2004 - a line needs two ends
        return ""
    top = max(values) or 1.0
    step = WIDTH / (len(values) - 1)
    inside = HEIGHT - 2 * PAD
    return " ".join(f"{i * step:.1f},{HEIGHT - PAD - inside * value / top:.1f}" for i, value in enumerate(values))
