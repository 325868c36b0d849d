"""Sets of sequence numbers as sorted half-open ranges.

An agent's numbers arrive nearly in order, so nearly always there is one range
and a number that extends it. Text in and out is PostgreSQL's int8multirange.
"""

from bisect import bisect_right

MAX_RANGES = 256
"""Ranges kept of one stream; beyond it the lowest gaps are taken as received."""


class Ranges:
    """Sequence numbers seen of one incarnation."""

    __slots__ = ("_ranges",)

    def __init__(self, ranges: list[list[int]] | None = None) -> None:
        """Start from sorted `[low, high)` pairs that do not touch."""
        self._ranges = ranges if ranges is not None else []

    @classmethod
    def parse(cls, text: str) -> "Ranges":
        """Read PostgreSQL's text form: `{[1,21),[40,41)}`."""
        inner = text[1:-1]
        parts = inner.strip("[)").split("),[") if inner else []
        return cls([[int(bound) for bound in part.split(",")] for part in parts])

    def __str__(self) -> str:
        """Write PostgreSQL's text form."""
        return "{" + ",".join(f"[{low},{high})" for low, high in self._ranges) + "}"

    def add(self, number: int) -> bool:
        """Take a number in; False when it was there already."""
        ranges = self._ranges
        if ranges and ranges[-1][1] == number:
            ranges[-1][1] += 1
            return True
        at = bisect_right(ranges, number, key=lambda pair: pair[0])
        if at and number < ranges[at - 1][1]:
            return False
        self._insert(at, number)
        if len(ranges) > MAX_RANGES:
            ranges[0][1] = ranges.pop(1)[1]
        return True

    def _insert(self, at: int, number: int) -> None:
        ranges = self._ranges
        joins_lower = at > 0 and ranges[at - 1][1] == number
        joins_upper = at < len(ranges) and ranges[at][0] == number + 1
        if joins_lower and joins_upper:
            ranges[at - 1][1] = ranges.pop(at)[1]
        elif joins_lower:
            ranges[at - 1][1] += 1
        elif joins_upper:
            ranges[at][0] -= 1
        else:
            ranges.insert(at, [number, number + 1])

    def end_of(self, number: int) -> int:
        """Return the last number of the range that holds `number`; `number - 1` when none does."""
        at = bisect_right(self._ranges, number, key=lambda pair: pair[0])
        if at and number < self._ranges[at - 1][1]:
            return self._ranges[at - 1][1] - 1
        return number - 1
