import os
import sqlite3

import pytest
from middlewatch_agent import kinds
from middlewatch_agent.config import SpoolLimits
from middlewatch_agent.spool import Spool, waiting
from middlewatch_agent.spool.report import describe


def event(kind="rank.step", number=0, padding=0):
    return waiting(kind, kinds.encode({"kind": kind, "data": {"step": number, "text": "x" * padding}}, 1000 + number))


def kinds_of(flight):
    return [row.kind for row in flight.rows] if flight else []


def nothing():
    return ()


def drain(spool):
    """Take off and acknowledge until nothing waits; give (incarnation, seq, kind) in order."""
    taken = []
    while flight := spool.flight(nothing):
        taken += [(flight.incarnation, row.seq, row.kind) for row in flight.rows]
        spool.acknowledge(flight.incarnation, flight.rows[-1].seq)
    return taken


def reopened(spool, incarnation="i2", **limits):
    spool.close()
    return Spool(spool.path, SpoolLimits(**limits), incarnation=incarnation)


def test_events_get_numbers_without_gaps_when_they_take_off(spool):
    spool.put([event(number=n) for n in range(3)])
    assert [row.seq for row in spool.flight(nothing).rows] == [1, 2, 3]
    spool.acknowledge("i1", 3)
    spool.put([event(number=9)])
    assert [row.seq for row in spool.flight(nothing).rows] == [4]


def test_what_is_in_flight_does_not_change_until_it_is_acknowledged(spool):
    spool.put([event(number=1)])
    first = spool.flight(nothing)
    spool.put([event(number=2)])
    assert spool.flight(lambda: [event("node.heartbeat")]) == first


def test_the_front_goes_before_the_backlog(spool):
    spool.put([event(number=n) for n in range(5)])
    flight = spool.flight(lambda: [event("node.hello"), event("node.heartbeat")])
    assert kinds_of(flight) == ["node.hello", "node.heartbeat", *["rank.step"] * 5]
    assert [row.seq for row in flight.rows] == list(range(1, 8))


def test_a_death_overtakes_a_long_backlog(spool):
    spool.put([event("node.health", n) for n in range(2000)])
    spool.put([event("rank.exited")])
    assert "rank.exited" in kinds_of(spool.flight(nothing))


def test_an_older_life_is_sent_to_its_end_before_the_new_one_starts(spool):
    spool.put([event(number=1), event(number=2)])
    spool.flight(nothing)
    spool.put([event(number=3)])
    later = reopened(spool)
    assert drain(later) == [("i1", 1, "rank.step"), ("i1", 2, "rank.step"), ("i2", 1, "rank.step")]


def test_what_an_older_life_may_not_send_any_more_is_sent_by_the_new_one(spool):
    spool.put([event(number=1)])
    spool.flight(nothing)
    later = reopened(spool)
    later.renumber("i1")
    assert drain(later) == [("i2", 1, "rank.step")]


def test_a_key_counts_once_in_all_lives(spool):
    assert spool.put_once("exited:demo.1.0", [event("rank.exited")])
    assert not spool.put_once("exited:demo.1.0", [event("rank.exited")])
    later = reopened(spool)
    assert not later.put_once("exited:demo.1.0", [event("rank.exited")])
    assert later.stats()["events"] == 1


def test_a_forgotten_key_may_be_told_again(spool):
    spool.put_once("k", [event()])
    spool.forget_told("k")
    assert spool.put_once("k", [event()])


@pytest.mark.parametrize("limits", [{"max_events": 100}, {"max_bytes": 20_000}])
def test_a_full_spool_drops_the_least_precious_kinds_first_and_counts_them(tmp_path, limits):
    spool = Spool(tmp_path / "spool.db", SpoolLimits(**limits), incarnation="i1")
    spool.put([event("rank.exited"), event("checkpoint"), event("attempt.exited"), event("command.result")])
    for number in range(60):
        spool.put(
            [event("rank.step", number, 100), event("node.health", number, 100), event("rank.window", number, 100)]
        )
    stats, dropped = spool.stats(), spool.dropped()
    assert stats["events"] <= limits.get("max_events", 1000)
    assert stats["bytes"] <= limits.get("max_bytes", 1 << 30)
    assert dropped["node.health"] > 0
    assert dropped["node.health"] >= dropped.get("rank.window", 0) >= dropped.get("rank.step", 0)
    assert not {"rank.exited", "checkpoint", "attempt.exited", "command.result"} & set(dropped)
    assert stats["dropped"] == sum(dropped.values())
    assert reopened(spool).dropped() == dropped


def test_precious_kinds_are_dropped_when_nothing_else_is_left(tmp_path):
    spool = Spool(tmp_path / "spool.db", SpoolLimits(max_events=10), incarnation="i1")
    spool.put([event("rank.exited", number) for number in range(30)])
    assert spool.stats()["events"] <= 10
    assert spool.dropped()["rank.exited"] >= 20


def test_dropping_leaves_no_gap_in_the_numbers(tmp_path):
    spool = Spool(tmp_path / "spool.db", SpoolLimits(max_events=20), incarnation="i1")
    spool.put([event("node.health", number) for number in range(50)])
    assert [seq for _, seq, _ in drain(spool)] == list(range(1, spool._next_seq))


def test_a_full_disk_moves_the_spool_to_memory_and_back(spool, monkeypatch):
    spool.put([event(number=1)])
    flying = spool.flight(nothing)
    spool.put([event(number=2)])
    spool._store.db.execute("PRAGMA max_page_count=1")  # SQLite's own "database or disk is full"
    for number in range(3, 200):
        spool.put([event(number=number, padding=500)])
    assert not spool.on_disk
    assert "full" in spool.fault
    assert spool.flight(nothing).rows[0].body == flying.rows[0].body
    spool.put_once("k", [event("rank.exited")])
    spool.acknowledge("i1", 1)
    spool.tick()
    assert spool.on_disk
    taken = drain(spool)
    assert [seq for _, seq, _ in taken] == list(range(2, 2 + len(taken)))
    assert len(taken) == 199
    assert not reopened(spool).put_once("k", [event()])


def test_memory_is_bounded_too(spool):
    spool.limits = SpoolLimits(memory_events=50)
    spool._store.db.close()
    spool.put([event("node.health", number) for number in range(500)])
    assert not spool.on_disk
    assert spool.stats()["events"] <= 50
    assert spool.stats()["dropped"] >= 450


def test_a_broken_file_is_put_aside_and_the_agent_goes_on(tmp_path):
    path = tmp_path / "spool.db"
    path.write_bytes(b"this is no database at all" * 400)
    spool = Spool(path, SpoolLimits(), incarnation="i1")
    spool.put([event()])
    assert spool.on_disk
    assert (tmp_path / "broken-spool.db").exists()
    assert spool.stats()["events"] == 1


def test_a_file_that_breaks_under_the_running_agent_loses_nothing_new(spool):
    spool.put([event(number=n, padding=1000) for n in range(50)])
    spool._store.db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with spool.path.open("r+b") as file:
        size = os.fstat(file.fileno()).st_size
        file.write(b"\xff" * size)
    spool._store.close()
    spool._store.db = sqlite3.connect(spool.path, isolation_level=None, check_same_thread=False)
    spool.put([event("rank.exited")])
    assert not spool.on_disk
    spool.tick()
    assert spool.on_disk
    assert [kind for _, _, kind in drain(spool)] == ["rank.exited"]


def test_a_folder_that_cannot_be_written_starts_in_memory(tmp_path):
    spool = Spool(tmp_path / "missing" / "spool.db", SpoolLimits(), incarnation="i1")
    spool.put([event()])
    assert not spool.on_disk
    (tmp_path / "missing").mkdir()
    spool.tick()
    assert spool.on_disk
    assert spool.stats()["events"] == 1


def test_facts_are_kept_together_with_their_event(spool):
    spool.put([event("node.log")], {"cursor:kernel": "boot:17"})
    later = reopened(spool)
    assert later.note("cursor:kernel") == "boot:17"
    assert later.notes("cursor:") == {"cursor:kernel": "boot:17"}


def test_the_file_shrinks_again_after_a_backlog(spool):
    spool.put([event(number=n, padding=2000) for n in range(2000)])
    drain(spool)
    spool._store.db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert spool.path.stat().st_size < 1 << 20


def test_the_report_is_for_people(spool):
    spool.put([event("rank.step", 1), event("rank.step", 2), event("rank.exited", 3)])
    text = describe(spool.path, now_s=61.0)
    assert "3 events wait" in text
    assert "rank.step: 2" in text
    assert "60 s ago" in text


def test_a_number_that_json_cannot_carry_travels_as_a_word():
    assert b'"nan"' in kinds.encode({"kind": "rank.step", "data": {"loss": float("nan")}}, 1)
    assert b'"-inf"' in kinds.encode({"kind": "rank.step", "data": {"x": [float("-inf")]}}, 1)


@pytest.mark.parametrize(
    "bad",
    [
        {"data": {}},
        {"kind": "x", "data": {"text": "x" * (65 << 10)}},
        {"kind": "x", "data": {"a": [[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]}},
    ],
)
def test_an_event_without_kind_or_over_the_limits_is_refused(bad):
    with pytest.raises(kinds.BadEventError):
        kinds.encode(bad, 1)
