"""Numbers and times as a person reads them at three in the morning.

Hostnames and steps stay exact; durations are rounded to what matters.
"""

from collections.abc import Sequence

MINUTE = 60
HOUR = 3600
DAY = 86_400
EXACT_BELOW_S = 10
LISTED = 6
GROUPED_FROM = 10_000


def duration(seconds: float) -> str:
    """Give a duration: 0.8 s, 47 s, 3 min 5 s, 2 h 10 min, 3 d 4 h."""
    if seconds < EXACT_BELOW_S:
        return f"{max(0.0, seconds):.1f} s"
    whole = round(seconds)
    if whole < MINUTE:
        return f"{whole} s"
    if whole < HOUR:
        return _pair(whole, MINUTE, "min", 1, "s")
    if whole < DAY:
        return _pair(whole, HOUR, "h", MINUTE, "min")
    return _pair(whole, DAY, "d", HOUR, "h")


def _pair(whole: int, big: int, big_word: str, small: int, small_word: str) -> str:
    rest = whole % big // small
    return f"{whole // big} {big_word}" + (f" {rest} {small_word}" if rest else "")


def number(value: float) -> str:
    """Give a step or a count; five digits and more with narrow gaps: 5050, 81 400."""
    return f"{value:,.0f}".replace(",", "\u202f") if abs(value) >= GROUPED_FROM else f"{value:.0f}"


def count(value: int, one: str, many: str = "") -> str:
    """Give a number with its noun: 1 step, 12 steps."""
    return f"{number(value)} {one if value == 1 else many or one + 's'}"


def listed(names: Sequence[str]) -> str:
    """Name up to six, then say how many more: n01, n02 and 3 more."""
    if len(names) <= LISTED:
        return " and ".join(part for part in (", ".join(names[:-1]), *names[-1:]) if part) or "none"
    return f"{', '.join(names[:LISTED])} and {len(names) - LISTED} more"


def cut(text: str, most: int) -> str:
    """Shorten a text to at most `most` characters, between two words, and show that it was cut."""
    if len(text) <= most:
        return text
    head, gap, _ = text[:most].rpartition(" ")
    return f"{(head if gap else text[: most - 1]).rstrip(' ,;:')}…"[:most]


def place(entity: str) -> str:
    """Put an entity into words: node:n03 is “node n03”, rank:2 is “rank 2”."""
    return entity.replace(":", " ", 1)


def gpu_hours(value: float) -> str:
    """Give GPU-hours with the digits that matter: 0.04, 3.1, 375."""
    return f"{value:.2f}" if value < 1 else f"{value:.1f}" if value < EXACT_BELOW_S else number(value)
