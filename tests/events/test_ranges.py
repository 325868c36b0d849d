import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.events import ranges
from controlplane.events.ranges import Ranges


@given(st.lists(st.integers(1, 60)))
def test_each_number_is_new_exactly_once(numbers):
    seen = Ranges()
    assert [seen.add(number) for number in numbers] == [
        number not in numbers[:index] for index, number in enumerate(numbers)
    ]


@given(st.sets(st.integers(1, 60)))
def test_text_goes_out_and_comes_in_again(numbers):
    seen = Ranges()
    for number in numbers:
        seen.add(number)
    text = str(seen)
    assert str(Ranges.parse(text)) == text
    assert not any(Ranges.parse(text).add(number) for number in numbers)


@given(st.sets(st.integers(1, 60)), st.integers(1, 60))
def test_the_end_is_the_last_number_before_a_gap(numbers, start):
    seen = Ranges()
    for number in numbers:
        seen.add(number)
    end = start - 1
    while end + 1 in numbers:
        end += 1
    assert seen.end_of(start) == end


def test_neighbours_join_into_one_range():
    seen = Ranges()
    for number in (1, 3, 2, 10, 9):
        seen.add(number)
    assert str(seen) == "{[1,4),[9,11)}"


@pytest.mark.parametrize("text", ["{}", "{[1,2)}", "{[1,21),[40,41)}"])
def test_postgresqls_own_form_is_read(text):
    assert str(Ranges.parse(text)) == text


def test_a_stream_full_of_holes_keeps_only_so_many(monkeypatch):
    monkeypatch.setattr(ranges, "MAX_RANGES", 3)
    seen = Ranges()
    for number in (1, 3, 5, 7):
        seen.add(number)
    assert str(seen) == "{[1,4),[5,6),[7,8)}"
