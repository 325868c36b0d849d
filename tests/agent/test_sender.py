import json
import threading
import time

import pytest
from middlewatch_agent import kinds
from middlewatch_agent.backoff import Backoff
from middlewatch_agent.sender import Sender
from middlewatch_agent.spool import waiting
from middlewatch_agent.transport import Connection, Token

from tests.agent.process import step
from tests.patience import within


@pytest.fixture
def sender(tmp_path, plane, spool):
    (tmp_path / "token").write_text("good\n")
    return Sender(
        spool, Connection(plane.url, answer_s=2.0), Token(tmp_path / "token"), node="n01",
        hello=lambda: {"hostname": "n01"}, flush_s=0.1, backoff=Backoff(first_s=0.001, max_s=0.002),
    )  # fmt: skip


@pytest.fixture
def running(sender):
    thread = threading.Thread(target=sender.run, daemon=True)
    thread.start()
    yield sender
    sender.close(0.0)
    thread.join(5)
    assert not thread.is_alive()


def put(sender, kind="rank.step", number=0, padding=0):
    body = kinds.encode({"kind": kind, "data": {"step": number, "text": "x" * padding}}, 1000)
    sender.spool.put([waiting(kind, body)])
    sender.wake(kind)


def empty(sender):
    return sender.spool.stats()["events"] == 0


def test_the_first_event_of_a_life_is_its_hello(plane, running):
    put(running)
    plane.wait_kind("rank.step")
    assert plane.batches[0]["events"][0]["kind"] == "node.hello"
    assert plane.batches[0]["agent"] == {"node": "n01", "incarnation": "i1", "version": "0.1.0"}


def test_an_acknowledged_event_leaves_the_spool(plane, running):
    put(running)
    plane.wait(lambda: empty(running) and plane.of_kind("rank.step"))


def test_a_death_leaves_within_milliseconds_although_ordinary_events_may_wait(plane, running):
    put(running, "rank.step")
    plane.wait(lambda: plane.of_kind("rank.step"))
    running._ordinary_s = 30.0
    put(running, "node.health")
    began = time.monotonic()
    put(running, "rank.exited")
    plane.wait_kind("rank.exited")
    assert time.monotonic() - began < within(0.25)


def test_an_ordinary_event_waits_for_as_long_as_the_control_plane_says(plane, sender):
    plane.next_in_ms = 5000
    sender.send_one()
    sender._due = None
    put(sender, "node.health")
    assert sender._due > time.monotonic() + 4.0


@pytest.mark.parametrize("status", [500, 502, 503, 429, 0])
def test_nothing_is_lost_while_the_control_plane_answers_errors(plane, running, status):
    failures = iter(range(4))
    plane.hook = lambda _: (status, {}, {}) if next(failures, None) is not None else None
    for number in range(5):
        put(running, number=number)
    assert [event["data"]["step"] for event in plane.wait_kind("rank.step", 5)] == [0, 1, 2, 3, 4]


def test_an_answer_that_was_lost_after_the_commit_duplicates_nothing(plane, running):
    lost = iter(range(3))
    plane.after = lambda _: (0, {}, {}) if next(lost, None) is not None else None
    for number in range(10):
        put(running, number=number)
    plane.wait(lambda: empty(running) and len(plane.of_kind("rank.step")) == 10)
    assert len({(e["incarnation"], e["seq"]) for e in plane.of_kind("rank.step")}) == 10


def test_retry_after_is_obeyed(plane, sender):
    plane.hook = lambda _: (429, {}, {"Retry-After": "7"})
    sender.send_one()
    assert sender._not_before - time.monotonic() > 6.5


@pytest.mark.parametrize(("status", "word"), [(401, "enrol"), (403, "another node"), (409, "another machine")])
def test_a_refusal_that_a_person_must_settle_keeps_everything_and_says_why(plane, sender, status, word):
    plane.hook = lambda _: (status, {"error": "no"}, {})
    put(sender)
    sender.send_one()
    assert word in sender.trouble
    plane.hook = lambda _: None
    sender.send_one()
    assert sender.trouble is None
    assert plane.of_kind("rank.step")


def test_a_batch_that_is_too_big_is_split_until_it_fits(plane, running):
    plane.hook = lambda batch: (413, {}, {}) if len(batch["events"]) > 3 else None
    running.spool.put([waiting("rank.step", kinds.encode(step(n), 1)) for n in range(40)])
    running.wake("rank.step")
    plane.wait(lambda: len(plane.of_kind("rank.step")) == 40 and empty(running))


def test_a_single_event_that_is_too_big_is_replaced_by_the_news_of_it(plane, running):
    plane.hook = lambda batch: (413, {}, {}) if len(json.dumps(batch)) > 20_000 else None
    put(running, number=1)
    put(running, number=2, padding=30_000)
    put(running, number=3)
    plane.wait(lambda: len(plane.of_kind("rank.step")) == 2 and empty(running))
    assert "rank.step" in plane.of_kind("node.log")[0]["data"]["text"]
    assert running.rejected == 1


def test_an_event_that_the_control_plane_names_as_bad_does_not_stop_the_others(plane, running):
    def judge(batch):
        bad = [n for n, event in enumerate(batch["events"]) if event["data"].get("step") == 2]
        return (400, {"error": "malformed", "field": "step", "index": bad[0]}, {}) if bad else None

    plane.hook = judge
    for number in (1, 2, 3):
        put(running, number=number)
    plane.wait(lambda: [e["data"]["step"] for e in plane.of_kind("rank.step")] == [1, 3] and empty(running))


def test_a_400_that_blames_no_event_throws_nothing_away(plane, sender):
    plane.hook = lambda _: (400, {"error": "malformed", "index": None}, {})
    put(sender)
    for _ in range(5):
        sender.send_one()
    plane.hook = lambda _: None
    sender.send_one()
    assert plane.of_kind("rank.step")


def test_rejected_events_are_counted_and_not_sent_again(plane, sender):
    put(sender)
    rejected = [{"seq": 2, "index": 1, "field": "step", "reason": "missing"}]
    plane.after = lambda _: (200, {"ack": 2, "next_in_ms": 1, "rejected": rejected}, {})
    sender.send_one()
    assert sender.rejected == 1
    assert empty(sender)


def test_what_was_not_acknowledged_is_sent_again(plane, sender):
    for number in range(4):
        put(sender, number=number)
    plane.after = lambda _: (200, {"ack": 3, "next_in_ms": 1}, {})
    sender.send_one()
    assert sender.spool.stats()["events"] == 2
    plane.after = lambda _: None
    sender.send_one()
    assert empty(sender)


def test_a_hole_that_nobody_can_fill_any_more_does_not_stop_the_sending(plane, sender):
    put(sender)
    sender.send_one()
    plane.after = lambda _: (200, {"ack": 0, "next_in_ms": 1}, {})  # restored from a backup, say
    put(sender)
    sender.send_one()
    assert empty(sender)


@pytest.mark.parametrize("body", [{}, {"ack": "x"}, {"ack": None}])
def test_an_answer_that_makes_no_sense_deletes_nothing(plane, sender, body):
    put(sender)
    plane.after = lambda _: (200, body, {})
    sender.send_one()
    assert not empty(sender)


def test_only_the_newest_heartbeat_leaves_after_an_outage(plane, sender):
    plane.hook = lambda _: (503, {}, {})
    for number in range(5):
        put(sender, number=number)
        sender.heartbeat({"uptime_s": float(number)}, 1000 + number)
        sender.send_one()
    plane.hook = lambda _: None
    sender.send_one()
    sender.send_one()
    beats = plane.of_kind("node.heartbeat")
    assert [beat["data"]["uptime_s"] for beat in beats] == [0.0, 4.0]


def test_a_heartbeat_does_not_queue_behind_the_backlog(plane, sender):
    sender.spool.put([waiting("node.health", kinds.encode(step(n), 1)) for n in range(5000)])
    sender.heartbeat({"uptime_s": 1.0}, 1000)
    sender.send_one()
    assert plane.of_kind("node.heartbeat")


def test_a_new_token_is_used_without_a_restart(plane, sender, tmp_path):
    sender.send_one()
    (tmp_path / "token.new").write_text("fresh")
    (tmp_path / "token.new").replace(tmp_path / "token")
    put(sender)
    sender.send_one()
    assert plane.requests[-1].endswith("Bearer fresh")


def test_a_stalled_control_plane_is_given_up_and_asked_again(plane, sender):
    sender._connection._answer_s = 0.1
    plane.after = lambda _: time.sleep(0.5)
    put(sender)
    sender.send_one()
    assert "unreachable" in (sender.trouble or "").lower() or "timed out" in (sender.trouble or "").lower()
    plane.after = lambda _: None
    sender._connection._answer_s = 5.0
    sender.send_one()
    assert empty(sender)


def test_the_back_off_grows_with_full_jitter_and_stops_growing():
    backoff = Backoff(first_s=1.0, max_s=8.0)
    waits = [[backoff.failed() for _ in range(6)] for _ in range(200) if not backoff.succeeded()]
    for place, ceiling in enumerate([1, 2, 4, 8, 8, 8]):
        column = [row[place] for row in waits]
        assert 0 <= min(column) < 0.2 * ceiling
        assert 0.8 * ceiling < max(column) <= ceiling
