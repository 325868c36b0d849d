"""The agent against the real ingest application and its database."""

import random
import signal
import time
from datetime import UTC, datetime, timedelta

import pytest
from middlewatch_agent import cli

from controlplane.events.models import Event, Stream
from controlplane.fleet import actions as fleet
from tests.agent.process import AgentProcess, step
from tests.ingest.conftest import server

__all__ = ["server"]


def until(true, seconds=20.0):
    deadline = time.monotonic() + seconds
    while not (value := true()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return value


def steps():
    return sorted(Event.objects.filter(kind="rank.step").values_list("data__step", flat=True))


@pytest.fixture
def enrolled(server, tmp_path):
    """Make an agent that bought its token like any other."""
    url = f"http://127.0.0.1:{server.port}"
    enrolment = fleet.create_enrolment_token("test", datetime.now(UTC))
    agent = AgentProcess(tmp_path / "n01", url)
    argv = ["enrol", "--url", url, "--token", enrolment, "--name", "n01", "--state", str(agent.state)]
    assert cli.main(argv) == 0
    yield agent
    if agent.process is not None:
        agent.kill()


def test_an_enrolled_agent_is_believed(enrolled):
    enrolled.start()
    until(lambda: Event.objects.filter(kind="node.health").exists())
    enrolled.send(step(1, loss="nan", grad_norm=1.5))
    stored = until(lambda: Event.objects.filter(kind="rank.step").first())
    assert (stored.node, stored.run, stored.attempt, stored.rank) == ("n01", "demo", 1, 0)
    assert stored.data == {"step": 1, "loss": "nan", "grad_norm": 1.5}
    assert Event.objects.order_by("id").first().kind == "node.hello"


def test_kill_nine_at_random_moments_stores_every_event_once(enrolled):
    dice, sent = random.Random(5), 0
    for _life in range(5):
        enrolled.start()
        ends_at = time.monotonic() + dice.uniform(0.05, 0.5)
        while time.monotonic() < ends_at:
            sent += enrolled.send(step(sent))
            time.sleep(dice.uniform(0.0, 0.01))
        until(lambda last=sent - 1: enrolled.holds(last) or last in steps())
        enrolled.kill()
    enrolled.start()
    until(lambda: len(steps()) >= sent)
    assert steps() == list(range(sent))
    assert enrolled.kill(signal.SIGTERM) == 0
    assert Stream.objects.filter(node="n01", holder=True).count() == 1


def test_a_command_reaches_the_agent_and_its_result_the_database(enrolled):
    enrolled.start()
    until(lambda: Event.objects.filter(kind="node.hello").exists())
    now = datetime.now(UTC)
    args = {"run": "demo", "attempt": 1, "what": ["stacks"]}
    fleet.send_command("n01", "collect", args, key="k1", deadline=now + timedelta(minutes=1), now=now)
    final = until(
        lambda: Event.objects.filter(kind="command.result", data__state__in=["succeeded", "failed", "refused"]).first()
    )
    assert (final.data["state"], final.data["data"], final.run) == ("succeeded", {"ranks": {}}, "demo")


def test_a_revoked_token_keeps_the_events_at_home(enrolled):
    enrolled.start()
    until(lambda: Event.objects.filter(kind="node.hello").exists())
    (enrolled.state / "token").write_text("mwn_revoked")
    enrolled.send(step(1))
    time.sleep(0.5)
    assert steps() == []
    assert "401" in enrolled.log()
