from datetime import UTC, datetime, timedelta

import pytest

from controlplane.web.present import words

NOW = datetime(2026, 3, 1, 3, 2, 11, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (3.27, "3.3 s"),
        (47, "47 s"),
        (119, "119 s"),
        (120, "2 min"),
        (3599, "59 min"),
        (7500, "2 h 05 min"),
        (277_200, "3 d 5 h"),
        (-4, "0 s"),
        (None, "–"),
    ],
)
def test_a_span_is_written_with_the_units_that_matter(seconds, text):
    assert words.span(seconds) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(81_400, "81\u202f400"), (814_000, "814\u202f000"), (0, "0"), (None, "–"), (2.5, "2.50"), (12.34, "12.3")],
)
def test_thousands_are_set_apart(value, text):
    assert words.number(value) == text


def test_an_age_says_never_for_what_never_was():
    assert words.age(None, NOW) == "never"
    assert words.age(NOW - timedelta(seconds=47), NOW) == "47 s ago"


def test_an_age_is_never_negative_when_clocks_differ():
    assert words.age(NOW + timedelta(seconds=5), NOW) == "0 s ago"


def test_a_countdown_ends_at_zero():
    assert words.countdown(NOW + timedelta(seconds=45), NOW) == "0:45"
    assert words.countdown(NOW - timedelta(seconds=1), NOW) == "0:00"


def test_a_countdown_of_hours_is_no_stop_watch():
    assert words.countdown(NOW + timedelta(seconds=7199), NOW) == "1 h 59 min"


@pytest.mark.parametrize(
    ("count", "text"),
    [(None, "–"), (0, "0 B"), (999, "999 B"), (1500, "1.5 kB"), (140_000_000_000, "140 GB"), (3e18, "3000.0 PB")],
)
def test_bytes_take_the_unit_that_fits(count, text):
    assert words.size(count) == text


@pytest.mark.parametrize(("count", "text"), [(1, "1 step"), (0, "0 steps"), (1200, "1\u202f200 steps")])
def test_plurals_agree(count, text):
    assert words.plural(count, "step") == text


def test_a_clause_that_begins_with_the_name_of_a_machine_keeps_the_name():
    assert words.sentence("n05 takes its place") == "n05 takes its place"
    assert words.sentence("node n05 is lost") == "Node n05 is lost"
    assert words.sentence("") == ""
