from datetime import UTC, datetime

import pytest

from controlplane.domain.notify.hours import Hours, first_gap


def at(text):
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def test_no_hours_are_all_hours():
    assert Hours.parse("", "UTC").holds(at("2026-11-30T03:00"))
    assert Hours().words == "at all hours"


@pytest.mark.parametrize(
    ("moment", "inside"),
    [
        ("2026-11-30T21:59", False),  # a Monday
        ("2026-11-30T22:00", True),
        ("2026-12-01T05:59", True),
        ("2026-12-01T06:00", False),
        ("2026-12-05T03:00", True),  # the night that began on Friday
        ("2026-12-06T03:00", False),
    ],
)
def test_a_night_belongs_to_the_day_on_which_it_began(moment, inside):
    assert Hours.parse("Mon-Fri 22:00-06:00", "UTC").holds(at(moment)) is inside


def test_days_may_go_over_the_end_of_the_week():
    hours = Hours.parse("Sat-Mon 08:00-09:00", "UTC")
    assert hours.holds(at("2026-11-30T08:30"))
    assert not hours.holds(at("2026-12-01T08:30"))


def test_hours_are_those_of_the_time_zone_in_summer_and_winter():
    hours = Hours.parse("Mon-Sun 08:00-09:00", "Europe/Berlin")
    assert hours.holds(at("2026-11-30T07:30"))
    assert hours.holds(at("2026-07-01T06:30"))
    assert not hours.holds(at("2026-07-01T07:30"))


@pytest.mark.parametrize(
    ("text", "zone", "why"),
    [
        ("always", "UTC", "is not as"),
        ("Mon-Fry 22:00-06:00", "UTC", "is no day"),
        ("Mon 25:00-06:00", "UTC", "no time of day"),
        ("Mon 12:60-13:00", "UTC", "no time of day"),
        ("", "Mars/Olympus", "no time zone"),
        ("", "../etc/passwd", "no time zone"),
        (", ".join(["Mon 01:00-02:00"] * 15), "UTC", "at most 14"),
    ],
)
def test_hours_that_nobody_understands_are_refused_with_the_reason(text, zone, why):
    with pytest.raises(ValueError, match=why):
        Hours.parse(text, zone)


def test_the_first_hour_at_which_nobody_is_there_is_found():
    night = Hours.parse("Mon-Sun 20:00-08:00", "UTC")
    day = Hours.parse("Mon-Fri 08:00-20:00", "UTC")
    assert first_gap([night, day], at("2026-11-30T10:00")) == at("2026-12-05T08:00")
    assert first_gap([Hours()], at("2026-11-30T10:00")) is None
    assert first_gap([], at("2026-11-30T10:20")) == at("2026-11-30T10:00")
