"""Publishing happens once, after the commit, in an order that a page can tell, and never hurts what was committed."""

from datetime import UTC, datetime

import pytest
import redis
from django.db import transaction

from controlplane.live import actions, publish, registry, store
from controlplane.live.registry import Fragment
from controlplane.live.topics import Topic

NOW = datetime(2026, 3, 1, 2, 30, tzinfo=UTC)
NOW_MS = 1_772_332_200_000


@pytest.fixture
def sent(monkeypatch):
    """What leaves, as (topic, envelope), with renderers that say which regions they were asked for."""
    left = []
    store.client().flushdb()
    leave = store.leave
    monkeypatch.setattr(store, "leave", lambda urgent, later: leave(urgent, later) or list(urgent))
    monkeypatch.setattr(publish, "send", lambda topic, envelope: left.append((str(topic), envelope)))

    def render(subject, regions, since):
        entries = 9 if registry.CHRONICLE in regions else 0
        return Fragment(content=f"{subject}:{sorted(regions)}:{since}", seq=entries, newest=entries)

    for kind in ("incident", "fleet", "count"):
        also = ("count",) if kind == "fleet" else ()
        monkeypatch.setitem(registry._renderers, kind, render)
        monkeypatch.setitem(registry._companions, kind, also)
    return left


@pytest.mark.django_db(transaction=True)
def test_nothing_leaves_before_the_commit(sent):
    with transaction.atomic():
        actions.touch("incident:7")
        assert sent == []
    assert [topic for topic, _ in sent] == ["incident:7"]


@pytest.mark.django_db(transaction=True)
def test_nothing_leaves_after_a_rollback(sent):
    with transaction.atomic():
        actions.touch("incident:7")
        transaction.set_rollback(True)
    assert sent == []


@pytest.mark.django_db(transaction=True)
def test_touches_of_one_transaction_are_rendered_once(sent):
    with transaction.atomic():
        for _ in range(3):
            actions.touch("incident:7")
            actions.touch("incident:7", region="chronicle")
    assert len(sent) == 1
    assert "['chronicle', 'state']" in sent[0][1]["content"]


@pytest.mark.django_db(transaction=True)
def test_a_touch_of_a_savepoint_that_is_undone_takes_no_other_touch_with_it(sent):
    with transaction.atomic():
        actions.touch("incident:7")
        with transaction.atomic():
            actions.touch("incident:8")
            transaction.set_rollback(True)
    assert [topic for topic, _ in sent] == ["incident:7"]


@pytest.mark.django_db(transaction=True)
def test_without_a_transaction_it_leaves_at_once(sent):
    actions.touch("incident:7")
    assert len(sent) == 1


@pytest.mark.django_db(transaction=True)
def test_what_is_not_urgent_waits_for_the_flush_and_is_sent_once(sent):
    for _ in range(5):
        actions.touch("fleet", urgent=False)
    assert sent == []
    actions.flush(NOW_MS)
    actions.flush(NOW_MS + 1000)
    assert sorted(topic for topic, _ in sent) == ["count", "fleet"]


@pytest.mark.django_db(transaction=True)
def test_a_topic_that_cannot_be_rendered_costs_no_other_its_update(sent, monkeypatch, caplog):
    def broken(subject, regions, since):
        raise KeyError("gone")

    monkeypatch.setitem(registry._renderers, "incident", broken)
    with transaction.atomic():
        for topic, urgent in (("incident:7", True), ("count", True), ("fleet", False), ("incident:8", False)):
            actions.touch(topic, urgent=urgent)
    assert [topic for topic, _ in sent] == ["count"]
    assert actions.flush(NOW_MS) == 2
    assert sorted(topic for topic, _ in sent) == ["count", "count", "fleet"]
    assert "incident:7" in caplog.text


@pytest.mark.django_db(transaction=True)
def test_a_stream_that_no_page_follows_is_ignored(sent):
    actions.touch("node:n01")
    assert sent == []


@pytest.mark.django_db
def test_a_later_rendering_carries_a_greater_number_even_when_redis_forgot(sent):
    topic = Topic("incident", "7")
    first = publish.envelopes(topic, {"state"}, NOW_MS)[0]["version"]
    second = publish.envelopes(topic, {"state"}, NOW_MS)[0]["version"]
    store.client().flushdb()
    third = publish.envelopes(topic, {"state"}, NOW_MS + 5000)[0]["version"]
    assert first < second < third


@pytest.mark.django_db
def test_entries_are_sent_from_the_last_one_sent(sent):
    topic = Topic("incident", "7")
    assert publish.envelopes(topic, {"chronicle"}, NOW_MS)[0]["content"].endswith(":None")
    assert publish.envelopes(topic, {"chronicle"}, NOW_MS)[0]["content"].endswith(":9")


@pytest.mark.django_db(transaction=True)
def test_a_redis_that_is_gone_costs_a_log_line_and_nothing_else(monkeypatch, caplog):
    gone = redis.Redis(host="127.0.0.1", port=1, socket_connect_timeout=0.2)
    monkeypatch.setattr(store, "client", lambda: gone)
    with transaction.atomic():
        actions.touch("incident:7")
        actions.touch("fleet", urgent=False)
    assert "live update of incident:7, fleet, count was not sent" in caplog.text


def test_numbers_travel_apart_from_html():
    packed = publish.pack(Topic("run", "a"), Fragment(content="<p>", seq=3, newest=4, series={"at": [1]}), 5)
    assert [sorted(one) for one in packed] == [
        ["content", "newest", "seq", "topic", "version"],
        ["seq", "series", "topic", "version"],
    ]


@pytest.mark.django_db(transaction=True)
def test_what_no_page_follows_is_not_rendered_and_what_one_follows_is(sent, monkeypatch):
    monkeypatch.undo()
    rendered = []
    monkeypatch.setitem(registry._renderers, "incident", lambda *asked: rendered.append(asked) or Fragment(content="x"))
    actions.touch("incident:7")
    assert rendered == []
    with store.client().pubsub() as page:
        page.subscribe(f"mw-live__group__{Topic('incident', '7').group}")
        page.get_message(timeout=2)
        actions.touch("incident:7")
    assert len(rendered) == 1
