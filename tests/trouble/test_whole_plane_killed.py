"""The whole control plane killed at once, servers included, and started again on the same home."""

import os
import signal
import time

import pytest

from tests.servers import temporary_home
from tests.trouble.serving import Serving
from tests.trouble.world import HEAD, Yard, eventually

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("world"), pytest.mark.timeout(240)]


@pytest.fixture(scope="module")
def serving():
    with temporary_home() as home:
        running = Serving(home)
        yield running
        running.close()


@pytest.fixture(scope="module")
def own_yard(serving):
    told = serving.told
    made = Yard(serving.home, told["url"], told["database_url"], enrol=told["enrol"], api=told["api"])
    try:
        made.start_agents()
        yield made
    finally:
        made.close()


@pytest.fixture
def own_story(own_yard):
    launched = own_yard.launch()
    yield launched
    launched.stop()


def start_again(serving, yard):
    """Start it on the same home: the pages have their old address, the database has a new one."""
    serving.start()
    assert serving.told["url"] == yard.url
    yard.database_url = serving.told["database_url"]


def test_a_rank_killed_while_nobody_watches_is_recovered_by_the_next_start(serving, own_yard, own_story):
    serving.kill()
    mark = time.time()
    own_story.kill_rank(1)
    time.sleep(3)
    start_again(serving, own_yard)
    incident = own_story.recovers(limit_s=120)
    assert incident["class"] == "crash"
    assert own_story.commands("attempt.start") == [1, 2]
    assert own_story.attempt()["resume_step"] > 0
    steps = own_story.steps(1)
    assert steps == list(range(1, len(steps) + 1))
    assert time.time() - mark < 100


def test_a_control_plane_that_starts_again_blames_nobody_for_its_own_absence(serving, own_yard, own_story):
    serving.kill()
    time.sleep(8)
    start_again(serving, own_yard)
    own_story.goes_on()
    time.sleep(6)
    assert own_story.incidents() == []
    assert own_story.commands("attempt.start") == [1]
    steps = own_story.steps(1)
    assert steps == list(range(1, len(steps) + 1))


def test_a_death_that_was_answered_before_the_kill_is_not_answered_again(serving, own_yard, own_story):
    """The launcher's word on the first attempt comes when a second one has long trained."""
    own_yard.agents[HEAD].send_signal(signal.SIGSTOP)
    try:
        own_story.kill_rank(2)
        eventually(own_story.incidents, "the death was not seen", 20)
        serving.kill()
    finally:
        os.kill(own_yard.agents[HEAD].pid, signal.SIGCONT)
    time.sleep(2)
    start_again(serving, own_yard)
    own_story.recovers(limit_s=120)
    own_story.goes_on()
    assert own_story.commands("attempt.start") == [1, 2]
    assert len(own_story.incidents()) == 1
