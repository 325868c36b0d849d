"""Catching up by HTTP: everything after what a page knows, in order, without gaps."""

import re
from datetime import UTC, datetime

import pytest
import redis

from controlplane.chronicle.actions import tell
from controlplane.live import store
from controlplane.web import fragments
from tests.web.world import build, person

pytestmark = pytest.mark.django_db


@pytest.fixture
def world():
    return build()


def _get(client, query, status=200):
    answer = client.get(f"/live/resync?{query}")
    assert answer.status_code == status
    return answer.json()


def test_a_page_gets_every_entry_after_the_one_it_knows_and_the_current_state(client, world):
    client.force_login(person())
    topic = f"incident:{world.incident.pk}"
    (message,) = _get(client, f"topics={topic}&since={topic}:2")["messages"]
    assert re.findall(r'id="entry-(\d+)"', message["content"]) == ["3", "4", "5"]
    assert 'id="state"' in message["content"]
    assert (message["seq"], message["newest"]) == (5, 5)


def test_a_page_that_knows_everything_gets_no_entry(client, world):
    client.force_login(person())
    topic = f"incident:{world.incident.pk}"
    (message,) = _get(client, f"topics={topic}&since={topic}:5")["messages"]
    assert "entry-" not in message["content"]


def test_shared_fragments_hold_no_form_no_token_and_no_right_of_anybody(client, world):
    client.force_login(person())
    answer = _get(client, f"topics=incident:{world.incident.pk},run:llama-70b-v3,fleet,count")
    everything = "".join(message.get("content", "") for message in answer["messages"])
    assert "csrf" not in everything
    assert "<form" not in everything
    assert "needs the role" not in everything


def test_a_run_that_does_not_exist_yields_nothing(client, world):
    client.force_login(person())
    assert _get(client, "topics=run:nobody")["messages"] == []


def test_a_bad_topic_answers_400_and_names_the_field(client, world):
    client.force_login(person())
    assert _get(client, "topics=secrets", 400)["field"] == "topics"


def test_a_stranger_gets_nothing(client, world):
    assert client.get("/live/resync?topics=fleet").status_code in (302, 401, 403)


def test_without_redis_a_page_still_catches_up_and_is_told_that_it_is_stale(client, world, monkeypatch):
    gone = redis.Redis(host="127.0.0.1", port=1, socket_connect_timeout=0.2)
    monkeypatch.setattr(store, "client", lambda: gone)
    client.force_login(person())
    answer = _get(client, f"topics=incident:{world.incident.pk}")
    assert answer["ok"] is False
    assert answer["messages"][0]["version"] == 0


def test_a_long_absence_is_made_up_for_in_pieces(client, world, monkeypatch):
    monkeypatch.setattr(fragments, "MAX_ENTRIES", 2)
    client.force_login(person())
    topic, now = f"incident:{world.incident.pk}", datetime.now(UTC)
    tell(topic, "step", "One more.", at=now, now=now, actor_kind="system")
    (first,) = _get(client, f"topics={topic}&since={topic}:0")["messages"]
    (second,) = _get(client, f"topics={topic}&since={topic}:{first['seq']}")["messages"]
    assert (first["seq"], second["seq"]) == (2, 4)
