"""Append to the chronicle."""

import threading
from datetime import UTC, datetime, timedelta

import pytest
from django.db import DatabaseError, connection, transaction

from controlplane.chronicle import actions, queries
from controlplane.chronicle.actions import Sentence, tell_all
from controlplane.chronicle.models import Entry, Stream
from controlplane.domain.errors import Invalid

NOW = datetime(2026, 11, 29, 2, 0, tzinfo=UTC)


def tell(sentence="Rank 1 died of signal 9.", stream="incident:1", **more):
    more = {"at": NOW - timedelta(seconds=1), "now": NOW, "actor_kind": "detector"} | more
    return actions.tell(stream, more.pop("kind", "finding"), sentence, **more)


def numbers(stream):
    return [entry.number for entry in queries.entries(stream)]


@pytest.mark.django_db
def test_sentences_of_a_stream_are_numbered_from_one():
    tell("One.")
    tell("Two.")
    tell("Elsewhere.", stream="run:demo")
    assert [(entry.number, entry.sentence) for entry in queries.entries("incident:1")] == [(1, "One."), (2, "Two.")]
    assert numbers("run:demo") == [1]
    assert queries.last_number("incident:1") == 2


@pytest.mark.django_db
def test_entries_after_a_number_are_the_newer_ones():
    for word in ("One.", "Two.", "Three."):
        tell(word)
    assert [entry.sentence for entry in queries.entries("incident:1", after=1)] == ["Two.", "Three."]
    assert not queries.entries("incident:2").exists()
    assert queries.last_number("incident:2") == 0


@pytest.mark.django_db
def test_the_same_key_is_told_once_and_leaves_no_gap():
    first = tell(key="exec:1:stop:1")
    again = tell("Other words.", key="exec:1:stop:1", stream="run:demo")
    tell("Later.")
    assert again == first
    assert numbers("incident:1") == [1, 2]
    assert numbers("run:demo") == []


@pytest.mark.django_db(transaction=True)
def test_a_sentence_that_is_rolled_back_takes_its_number_back():
    tell("Kept.")
    with transaction.atomic():
        tell("Rolled back.")
        transaction.set_rollback(True)
    tell("Kept too.")
    assert [(entry.number, entry.sentence) for entry in queries.entries("incident:1")] == [
        (1, "Kept."),
        (2, "Kept too."),
    ]


@pytest.mark.django_db(transaction=True)
def test_writers_at_the_same_time_leave_no_gap_and_tell_each_key_once():
    together = threading.Barrier(4)

    def write(writer):
        together.wait(10)
        for turn in range(10):
            with transaction.atomic():
                tell(f"{writer} {turn}", key=f"shared-{turn}")
                tell(f"{writer} {turn}", key=f"own-{writer}-{turn}")
        connection.close()

    writers = [threading.Thread(target=write, args=[number]) for number in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(30)
    assert numbers("incident:1") == list(range(1, 51))


@pytest.mark.django_db(transaction=True)
def test_one_key_raced_into_two_streams_is_told_once():
    together = threading.Barrier(2)

    def write(stream):
        for turn in range(10):
            together.wait(10)
            tell(stream=stream, key=f"raced-{turn}")
        connection.close()

    writers = [threading.Thread(target=write, args=[name]) for name in ("incident:1", "run:demo")]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(30)
    told = {name: numbers(name) for name in ("incident:1", "run:demo")}
    assert sum(map(len, told.values())) == 10
    assert all(found == list(range(1, len(found) + 1)) for found in told.values())


@pytest.mark.django_db
@pytest.mark.parametrize(
    "change",
    [
        lambda: Entry.objects.update(sentence="Nothing happened."),
        lambda: Entry.objects.all().delete(),
        lambda: Stream.objects.filter(name="incident:1")._raw_delete("default"),
    ],
    ids=["rewriting an entry", "forgetting an entry", "forgetting a stream"],
)
def test_the_database_refuses(change):
    tell()
    with pytest.raises(DatabaseError), transaction.atomic():
        change()
    assert queries.entries("incident:1").get().sentence == "Rank 1 died of signal 9."


@pytest.mark.django_db
def test_pages_hear_of_a_sentence_after_the_commit(monkeypatch, django_capture_on_commit_callbacks):
    touched = []
    monkeypatch.setattr("controlplane.live.actions.touch", lambda *args, **more: touched.append((args, more)))
    tell()
    assert touched == [(("incident:1",), {"region": "chronicle", "urgent": True})]


@pytest.mark.django_db
def test_what_the_database_cannot_store_is_replaced():
    assert tell("a\x00b \ud800").sentence == "a\ufffdb ?"
    assert queries.entries("incident:1").get().sentence == "a\ufffdb ?"


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"sentence": "  "}, "sentence"),
        ({"sentence": "x" * (actions.MAX_SENTENCE + 1)}, "sentence"),
        ({"actor_kind": "ghost"}, "actor_kind"),
        ({"kind": "gossip"}, "kind"),
    ],
)
def test_a_sentence_that_cannot_be_is_refused_by_field(more, field):
    with pytest.raises(Invalid) as caught:
        tell(**more)
    assert caught.value.field == field
    assert Entry.objects.count() == 0


def sentence(text, key=None):
    return Sentence(kind="note", sentence=text, at=NOW, actor_kind="system", key=key)


@pytest.mark.django_db
def test_sentences_told_together_are_numbered_in_order_and_each_key_once(django_assert_max_num_queries):
    tell_all("run:demo", [sentence("one", "a"), sentence("two")], now=NOW)
    with django_assert_max_num_queries(5):
        told = [sentence("again", "a"), *[sentence(f"more {number}", f"k{number}") for number in range(20)]]
        tell_all("run:demo", [*told, sentence("twice", "k3")], now=NOW)
    kept = list(Entry.objects.order_by("number").values_list("number", "sentence"))
    assert kept == [(1, "one"), (2, "two"), *[(number + 3, f"more {number}") for number in range(20)]]
    tell_all("run:demo", [sentence("again", "a")], now=NOW)
    assert Entry.objects.count() == 22
