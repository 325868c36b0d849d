import asyncio
from datetime import UTC, datetime

import pytest
from middlewatch_wire import make_event

from controlplane.events.log import Appended
from controlplane.fleet import hot
from controlplane.ingest import aftermath
from controlplane.watch import wake
from tests.events.factories import batch, beat, hello, step

NOW = datetime(2026, 11, 29, tzinfo=UTC)


@pytest.fixture
def woken(monkeypatch):
    calls = []
    for name in ("run", "fleet"):
        monkeypatch.setattr(wake, name, lambda *which, name=name: calls.append((name, *which)))
    return calls


def commit(*events):
    async def story():
        subject = aftermath.Aftermath()
        subject.committed([batch(*events)], [Appended(1, batch(*events).events)], NOW)
        await subject.stop()
        return subject

    return asyncio.run(story())


def event(kind, seq=1, run="demo", **data):
    return make_event(kind, at_ms=1, seq=seq, run=run, attempt=1, rank=0, **data)


def test_a_death_wakes_the_watch_of_its_run(woken):
    commit(event("rank.exited", signal=9), beat(2))
    assert woken == [("run", "demo")]


def test_progress_within_a_phase_wakes_nobody_but_its_begin_does(woken):
    commit(event("rank.phase", phase="eval", state="progress", done=3))
    assert woken == []
    commit(event("rank.phase", phase="eval", state="begin"))
    assert woken == [("run", "demo")]


def test_the_first_step_of_an_attempt_wakes_and_the_next_do_not(woken):
    subject = commit(step(1), step(2))
    subject._note(batch(step(3)).events, NOW)
    assert woken == [("run", "demo")]
    assert subject._runs["demo"] == b"[1,3,%d]" % (NOW.timestamp() * 1000)


def test_what_belongs_to_no_run_wakes_the_watch_of_the_fleet(woken):
    commit(hello(1), event("command.result", 2, command_id="c-1", state="succeeded"))
    assert woken == [("fleet",), ("run", "demo")]


def test_names_of_runs_that_agents_make_up_do_not_fill_redis(monkeypatch):
    monkeypatch.setattr(aftermath, "MAX_HOT_RUNS", 3)

    async def left(names):
        subject = aftermath.Aftermath()
        await subject._redis.delete(hot.runs_key())
        subject._runs = {f"made up {number}": b"[1,2,3]" for number in range(names)}
        await subject._flush()
        there = await subject._redis.hlen(hot.runs_key())
        await subject.stop()
        return there

    assert [asyncio.run(left(names)) for names in (3, 4)] == [3, 0]
