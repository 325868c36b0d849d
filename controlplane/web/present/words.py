"""Numbers, spans and states in words, the same on every page."""

from dataclasses import dataclass
from datetime import datetime, timedelta

MINUTE = 60
HOUR = 3600
DAY = 86_400

THIN_SPACE = "\u202f"
GPU_HOURS = "\u00a0GPU\u2011h"
"""A unit that no line break tears apart."""


@dataclass(frozen=True, slots=True)
class Badge:
    """A state as icon, word and tone; the tone only repeats what the other two say."""

    icon: str
    word: str
    tone: str
    letter: str = ""


def number(value: float | None) -> str:
    """Write a count with narrow spaces between thousands: 81400 and 814000 differ at a glance."""
    if value is None:
        return "–"
    if isinstance(value, float) and not value.is_integer() and abs(value) < 100:  # noqa: PLR2004 - two places suffice
        return f"{value:.2f}" if abs(value) < 10 else f"{value:.1f}"  # noqa: PLR2004
    return f"{round(value):,}".replace(",", THIN_SPACE)


def plural(count: int, one: str, many: str | None = None) -> str:
    """Write `1 run`, `2 runs`."""
    return f"{number(count)} {one if count == 1 else many or one + 's'}"


def span(seconds: float | timedelta | None) -> str:
    """Write a length of time with its two largest units: `47 s`, `11 min`, `2 h 05 min`, `3 d 4 h`."""
    if seconds is None:
        return "–"
    total = max(0.0, seconds.total_seconds() if isinstance(seconds, timedelta) else seconds)
    if total < 2 * MINUTE:
        return f"{total:.1f} s" if total < 10 and total % 1 else f"{total:.0f} s"  # noqa: PLR2004 - tenths of little
    return _long_span(int(total))


def _long_span(whole: int) -> str:
    if whole < HOUR:
        return f"{whole // MINUTE} min"
    if whole < DAY:
        return f"{whole // HOUR} h {whole % HOUR // MINUTE:02d} min"
    return f"{whole // DAY} d {whole % DAY // HOUR} h"


def age(then: datetime | None, now: datetime) -> str:
    """Write how long ago something was; `never` for what never was."""
    return "never" if then is None else f"{span(max(0.0, (now - then).total_seconds()))} ago"


def countdown(until: datetime, now: datetime) -> str:
    """Write what is left as `m:ss`, hours and more as a span; zero once it has passed."""
    left = max(0, int((until - now).total_seconds()))
    return span(left) if left >= HOUR else f"{left // MINUTE}:{left % MINUTE:02d}"


def size(count: float | None) -> str:
    """Write bytes in the unit that fits."""
    if count is None:
        return "–"
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if count < 1000:  # noqa: PLR2004 - SI steps
            return f"{count:.0f} {unit}" if unit == "B" or count >= 100 else f"{count:.1f} {unit}"  # noqa: PLR2004
        count /= 1000
    return f"{count:.1f} PB"


def gpu_hours(value: float) -> str:
    """Write GPU-hours with the precision that their size deserves."""
    if value < 1:
        return f"{value:.3f}{GPU_HOURS}"
    return f"{value:.1f}{GPU_HOURS}" if value < 100 else f"{number(value)}{GPU_HOURS}"  # noqa: PLR2004


def sentence(text: str) -> str:
    """Begin with a capital letter, so that a clause can stand alone; a name such as `n05` stays as it is written."""
    first = text.partition(" ")[0]
    return text if any(map(str.isdigit, first)) else text[:1].upper() + text[1:]


def joined(parts: list[str]) -> str:
    """Write `a`, `a and b`, `a, b and c`."""
    return parts[0] if len(parts) == 1 else " and ".join(filter(None, [", ".join(parts[:-1]), *parts[-1:]]))
