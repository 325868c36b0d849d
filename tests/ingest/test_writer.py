import asyncio
from datetime import UTC, datetime

import psycopg
import pytest
from middlewatch_wire import Rejected

from controlplane.domain.errors import Unavailable
from controlplane.events.log import Appended
from controlplane.ingest import writer
from controlplane.ingest.writer import Writer
from tests.events.factories import batch, beat, step

NOW = datetime(2026, 11, 29, tzinfo=UTC)


class ScriptedWriter(Writer):
    """A writer whose appends fail as told."""

    def __init__(self, fail):
        self.groups, self.told = [], []
        super().__init__(None, lambda batches, *_: self.told.append(len(batches)))
        self.fail = fail

    async def _append(self, batches):
        self.groups.append([one.agent.node for one in batches])
        self.fail(batches)
        return [Appended(max(e.seq for e in one.events + one.rejected), one.events) for one in batches], NOW


async def outcome(subject, *batches):
    subject.start()
    results = await asyncio.gather(*(subject.submit(one) for one in batches), return_exceptions=True)
    await subject.stop()
    return [result.ack if isinstance(result, Appended) else type(result) for result in results]


def batches(*nodes):
    return [batch(beat(1), node=node) for node in nodes]


def test_batches_that_wait_are_written_together():
    subject = ScriptedWriter(lambda _: None)
    assert asyncio.run(outcome(subject, *batches("a", "b", "c"))) == [1, 1, 1]
    assert (subject.groups, subject.told) == ([["a", "b", "c"]], [3])


def poison(*kinds):
    def fail(group):
        if any(event.kind in kinds for one in group for event in one.events):
            raise psycopg.DataError("unsupported Unicode escape sequence")

    return fail


def test_one_poisoned_batch_does_not_fail_its_companions():
    bad = batch(beat(1), step(2), beat(3), node="bad")
    good = batches("a", "c")
    subject = ScriptedWriter(poison("rank.step"))
    assert asyncio.run(outcome(subject, good[0], bad, good[1])) == [1, 3, 1]
    assert [(gone.seq, gone.index, gone.field) for gone in bad.rejected] == [(2, 1, "data")]


def test_places_are_those_of_what_was_sent():
    bad = batch(beat(1), step(2))
    bad.rejected.append(Rejected(9, 0, "kind", "unreadable"))
    asyncio.run(outcome(ScriptedWriter(poison("rank.step")), bad))
    assert [gone.index for gone in bad.rejected] == [0, 2]


def test_an_outage_while_a_batch_is_salvaged_acknowledges_nothing():
    errors = [psycopg.DataError("bad"), *[psycopg.OperationalError("gone")] * 4]

    def fail(_):
        if errors:
            raise errors.pop(0)

    assert asyncio.run(outcome(ScriptedWriter(fail), batch(beat(1), beat(2)))) == [Unavailable]


def test_nothing_is_acknowledged_while_the_database_is_away():
    def fail(_):
        raise psycopg.OperationalError("the database system is shutting down")

    subject = ScriptedWriter(fail)
    assert asyncio.run(outcome(subject, *batches("a", "b"))) == [Unavailable, Unavailable]
    assert subject.told == []


def test_a_connection_that_died_meanwhile_costs_one_more_try_and_no_answer():
    failures = [psycopg.OperationalError("server closed the connection unexpectedly")]

    def fail(_):
        if failures:
            raise failures.pop()

    assert asyncio.run(outcome(ScriptedWriter(fail), *batches("a", "b"))) == [1, 1]


def test_a_bug_in_writing_fails_its_group_and_not_the_writer():
    failures = [ZeroDivisionError()]

    def fail(_):
        if failures:
            raise failures.pop()

    async def story():
        subject = ScriptedWriter(fail)
        subject.start()
        with pytest.raises(Unavailable):
            await subject.submit(batches("a")[0])
        answer = await subject.submit(batches("a")[0])
        await subject.stop()
        return answer.ack

    assert asyncio.run(story()) == 1


def test_more_than_can_be_held_is_not_taken_in(monkeypatch):
    monkeypatch.setattr(writer, "MAX_WAITING_BATCHES", 2)
    subject = ScriptedWriter(lambda _: None)
    assert asyncio.run(outcome(subject, *batches("a", "b", "c"))) == [1, 1, Unavailable]


def test_a_stop_leaves_nobody_waiting():
    async def story():
        subject = ScriptedWriter(lambda _: None)
        waiting = asyncio.ensure_future(subject.submit(batches("a")[0]))
        await asyncio.sleep(0)
        await subject.stop()
        with pytest.raises(Unavailable):
            await waiting

    asyncio.run(story())
