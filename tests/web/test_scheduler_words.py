"""Pages of a node and a run say what the scheduler calls them, how old that is, and why it is left so."""

import pytest

from controlplane.domain.signals import Signal
from controlplane.fleet import actions as fleet
from tests.web.world import build, person

pytestmark = pytest.mark.django_db


@pytest.fixture
def world(client):
    made = build()
    client.force_login(person())
    return made


def page(client, world, state, *, age_s=0.0, **data):
    at = world.now.timestamp() - age_s
    told = {"node": "n01", "state": state, **data}
    fleet.note_nodes([Signal(kind="scheduler.node", received=at, at_ms=int(at * 1000), node="head", data=told)])
    return client.get("/nodes/n01/").content.decode()


def test_what_a_person_drained_is_shown_as_left_alone_and_hostile_words_are_escaped(client, world):
    html = page(client, world, "drained", owner="ana", reason="<b>bad fan</b>")
    assert "Scheduler at head" in html
    assert "drained by ana (&lt;b&gt;bad fan&lt;/b&gt;); that is not ours to undo" in html


def test_an_old_word_is_unknown(client, world):
    assert "unknown, not told for" in page(client, world, "idle", age_s=600)


def test_a_node_without_a_scheduler_shows_none(client, world):
    assert "Scheduler at" not in client.get("/nodes/n01/").content.decode()


def jobs(client, world, state, *, age_s=0.0, **data):
    at, run = world.now.timestamp() - age_s, world.run.name
    told = {"job_id": "7001", "state": state, **data}
    signal = Signal(kind="scheduler.job", received=at, at_ms=int(at * 1000), node="head", run=run, data=told)
    fleet.note_jobs(run, [signal])
    return client.get(f"/runs/{run}/").content.decode()


def test_a_run_shows_its_jobs_at_the_scheduler(client, world):
    assert "Jobs at the scheduler" not in client.get(f"/runs/{world.run.name}/").content.decode()
    assert "pending (Dependency)" in jobs(client, world, "PENDING", reason="Dependency")
    assert "cancelled by &lt;ana&gt;" in jobs(client, world, "CANCELLED", by="<ana>")


def test_a_job_that_nobody_repeats_is_unknown(client, world):
    assert "unknown, was running" in jobs(client, world, "RUNNING", age_s=200)
