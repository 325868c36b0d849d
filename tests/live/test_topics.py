import pytest
from channels.layers import BaseChannelLayer

from controlplane.domain.errors import Invalid
from controlplane.live.topics import MAX_TOPICS, Topic, parse, parse_list, parse_since


@pytest.mark.parametrize("text", ["fleet", "count", "run:llama-70b.v3", "incident:42"])
def test_a_topic_is_written_as_it_was_read(text):
    assert str(parse(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "fleet:1",
        "run:",
        "run:../etc",
        "run:a b",
        "incident:0",
        "incident:x",
        "incident:-1",
        "node:n01",
        "run:" + "a" * 101,
    ],
)
def test_anything_else_is_refused_and_the_field_is_named(text):
    with pytest.raises(Invalid) as refused:
        parse(text)
    assert refused.value.field == "topics"


def test_a_page_follows_each_topic_once():
    assert parse_list("fleet,run:a,fleet") == (Topic("fleet"), Topic("run", "a"))


def test_a_page_follows_only_so_many_topics():
    with pytest.raises(Invalid):
        parse_list(",".join(f"run:r{n}" for n in range(MAX_TOPICS + 1)))


def test_no_topic_at_all_is_refused():
    with pytest.raises(Invalid):
        parse_list("")


def test_a_page_says_the_last_number_that_it_knows_of_each_topic():
    assert parse_since(["incident:42:17,fleet:3", "run:a:0"]) == {"incident:42": 17, "fleet": 3, "run:a": 0}


@pytest.mark.parametrize("value", ["fleet:x", "fleet", "incident:42:-1", "fleet:9999999999999999"])
def test_a_known_number_must_be_a_number(value):
    with pytest.raises(Invalid):
        parse_since([value])


def test_a_group_name_is_one_that_the_channel_layer_takes():
    BaseChannelLayer().require_valid_group_name(parse("run:llama-70b.v3").group)
