"""Hours of the week in a time zone, as a rule has them: `Mon-Fri 22:00-06:00, Sat-Sun 00:00-24:00`.

A span that ends before it begins goes on into the next morning and belongs to the day
on which it began: that is how people speak of a night watch.
"""

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Self
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
WHOLE_DAY = 24 * 60
MAX_SPANS = 14
_SPAN = re.compile(r"([A-Za-z]{3})(?:-([A-Za-z]{3}))? (\d{2}):(\d{2})-(\d{2}):(\d{2})")


@dataclass(frozen=True, slots=True)
class Span:
    """From minute `begin` to minute `end` of each of the days; an end at or before the beginning is tomorrow's."""

    days: frozenset[int]
    begin: int
    end: int

    def holds(self, day: int, minute: int) -> bool:
        """Tell whether a minute of a day of the week is inside."""
        if self.begin < self.end:
            return day in self.days and self.begin <= minute < self.end
        return (day in self.days and minute >= self.begin) or ((day - 1) % 7 in self.days and minute < self.end)


@dataclass(frozen=True, slots=True)
class Hours:
    """Spans of the week in a time zone; without any, all hours."""

    spans: tuple[Span, ...] = ()
    zone: str = "UTC"
    text: str = ""

    @classmethod
    def parse(cls, text: str, zone: str) -> Self:
        """Read hours as people write them; raises `ValueError` with the reason."""
        known_zone(zone)
        parts = [part.strip() for part in text.split(",") if part.strip()]
        if len(parts) > MAX_SPANS:
            raise ValueError(f"must be at most {MAX_SPANS} spans")
        return cls(tuple(_span(part) for part in parts), zone, ", ".join(parts))

    def holds(self, now: datetime) -> bool:
        """Tell whether `now` is inside."""
        if not self.spans:
            return True
        local = now.astimezone(ZoneInfo(self.zone))
        return any(span.holds(local.weekday(), local.hour * 60 + local.minute) for span in self.spans)

    @property
    def words(self) -> str:
        """Say the hours: `at all hours`, or the spans with their zone."""
        return f"{self.text} ({self.zone})" if self.spans else "at all hours"


def known_zone(zone: str) -> None:
    """Refuse a time zone that nobody knows, with `ValueError`."""
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"there is no time zone {zone!r}; write one as Europe/Berlin") from None


def first_gap(all_hours: list[Hours], now: datetime) -> datetime | None:
    """Return the first half hour of the coming week that none of these hours holds; None when all are held."""
    begin = now.replace(minute=now.minute // 30 * 30, second=0, microsecond=0)
    slots = (begin + timedelta(minutes=30 * slot) for slot in range(7 * 48))
    return next((slot for slot in slots if not any(hours.holds(slot) for hours in all_hours)), None)


def _span(part: str) -> Span:
    found = _SPAN.fullmatch(part)
    if found is None:
        raise ValueError(f"{part!r} is not as Mon-Fri 22:00-06:00")
    first, last, *numbers = found.groups()
    begin_hour, begin_minute, end_hour, end_minute = map(int, numbers)
    return Span(_days(first, last or first), _minute(begin_hour, begin_minute), _minute(end_hour, end_minute))


def _days(first: str, last: str) -> frozenset[int]:
    begin, end = _day(first), _day(last)
    return frozenset((begin + step) % 7 for step in range((end - begin) % 7 + 1))


def _day(name: str) -> int:
    if name.capitalize() not in DAYS:
        raise ValueError(f"{name!r} is no day: {', '.join(DAYS)}")
    return DAYS.index(name.capitalize())


def _minute(hour: int, minute: int) -> int:
    total = hour * 60 + minute
    if minute > 59 or total > WHOLE_DAY:  # noqa: PLR2004 - minutes of an hour
        raise ValueError(f"{hour:02d}:{minute:02d} is no time of day")
    return total
