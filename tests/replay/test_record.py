"""What was stored becomes a trace that begins in the middle of a run."""

from datetime import timedelta

import pytest

from controlplane.domain.errors import Invalid
from controlplane.incidents import actions as incidents
from controlplane.incidents.models import Incident
from controlplane.quarantine import actions as quarantine
from controlplane.replay.expand import Feed
from controlplane.replay.record import record
from controlplane.replay.trace import Trace
from controlplane.runs import actions as runs
from controlplane.watch import fleet as fleet_watch
from controlplane.watch import pipeline
from tests.flows.conftest import trained
from tests.flows.world import HEAD, Cluster

pytestmark = pytest.mark.django_db


@pytest.fixture
def night():
    """A run that trains, has saved a checkpoint, and loses a rank; with the moment at which recording begins."""
    pipeline.memory.forget()
    fleet_watch.memory.forget()
    world = trained(Cluster(size=2, spares=1).build(), steps=6)
    since = world.now
    world.tick(5)
    world.kill_rank(1)
    world.until(lambda: len(world.launches) == 2)
    return world, since


def recorded(path):
    trace = Trace(path)
    feed, found = Feed(trace), []
    while not feed.over:
        found += feed.take(feed.next_t())
    return trace, found


def test_a_recording_can_be_read_as_a_trace_from_its_first_moment_on(night, tmp_path):
    world, since = night
    done = record(world.run, since, world.now, tmp_path / "night.trace.jsonl")
    trace, found = recorded(tmp_path / "night.trace.jsonl")
    assert trace.name == "night"
    assert trace.header.runs[0].launcher == HEAD
    assert trace.header.runs[0].nodes == world.launches[0]["nodes"]
    assert trace.ended_at == (world.now - since).total_seconds()
    assert done.events == len([one for one in found if one.event])
    at_zero = {one.event.kind for one in found if one.t == 0}
    assert {"node.hello", "attempt.started", "rank.started", "checkpoint"} <= at_zero


def test_what_happened_keeps_its_order_and_its_distance_from_the_beginning(night, tmp_path):
    world, since = night
    record(world.run, since, world.now, tmp_path / "a")
    _, found = recorded(tmp_path / "a")
    died = next(one for one in found if one.event.kind == "rank.exited")
    assert 0 <= died.t * 1000 - died.event.at_ms <= 1000  # said in one second, heard in the next
    assert died.event.at_ms == 5000
    assert [one.t for one in found] == sorted(one.t for one in found)
    assert "command.result" not in {one.event.kind for one in found}


@pytest.fixture
def busy(night):
    """The same night with people who did everything that a trace can hold, a second apart."""
    world, since = night
    runbook = "hold-run (execution 7)"
    incident = Incident.objects.get(run=world.run)
    for act in (
        lambda: incidents.acknowledge(incident, "ana", world.now),
        lambda: incidents.note(incident, "ana looks at n01", "ana", world.now),
        lambda: runs.hold(world.run, "ana", world.now),
        lambda: runs.resume(world.run, "ben", world.now),
        lambda: runs.hold(world.run, runbook, world.now),
        lambda: runs.resume(world.run, runbook, world.now),
        lambda: incidents.silence(world.run, 10, "ana", world.now),
        lambda: quarantine.quarantine("n03", "it smells", actor_kind="person", actor="ben", now=world.now),
        lambda: quarantine.release("n03", by="ben", now=world.now, reason="it does not"),
        lambda: runs.stop(world.run, "ana", world.now),
    ):
        world.now += timedelta(seconds=1)
        act()
    return world, since


def acts(path):
    return [(one.operator.name, one.operator.do) for one in recorded(path)[1] if one.operator]


def test_what_people_did_is_recorded_in_its_place_and_what_a_runbook_did_in_a_name_of_its_own_is_not(busy, tmp_path):
    world, since = busy
    done = record(world.run, since, world.now, tmp_path / "a")
    assert acts(tmp_path / "a") == [
        ("ana", "acknowledge"), ("ana", "note"), ("ana", "hold_run"), ("ben", "resume_run"), ("ana", "silence"),
        ("ben", "cordon"), ("ben", "release_node"), ("ana", "stop_run"),
    ]  # fmt: skip
    found = recorded(tmp_path / "a")[1]
    held = next(one for one in found if one.operator and one.operator.do == "hold_run")
    assert held.t == (world.now - since).total_seconds() - 7
    assert [one.t for one in found] == sorted(one.t for one in found)
    silence, cordon = [one.operator for one in found if one.operator and one.operator.do in ("silence", "cordon")]
    assert (silence.run, silence.minutes, cordon.node, cordon.text) == ("demo", 10, "n03", "it smells")
    assert done.acts == 8


def test_people_are_named_otherwise_and_their_words_left_out_under_pseudonyms(busy, tmp_path):
    world, since = busy
    record(world.run, since, world.now, tmp_path / "a", pseudonyms=True)
    text = (tmp_path / "a").read_text()
    assert not [word for word in ("ana", "ben", "smells", "looks at") if f'"{word}' in text or f"{word} " in text]
    assert acts(tmp_path / "a")[2:4] == [("person-00", "hold_run"), ("person-01", "resume_run")]


def test_no_name_is_left_in_a_recording_under_pseudonyms(night, tmp_path):
    world, since = night
    record(world.run, since, world.now, tmp_path / "a", pseudonyms=True)
    text = (tmp_path / "a").read_text()
    assert not [name for name in ("n01", "n02", "n03", HEAD, "demo") if name in text]
    assert recorded(tmp_path / "a")[0].header.runs[0].name == "run-00"


def test_a_window_that_is_empty_is_refused(night, tmp_path):
    world, since = night
    with pytest.raises(Invalid):
        record(world.run, since, since - timedelta(seconds=1), tmp_path / "a")
