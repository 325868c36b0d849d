"""The whole control plane killed at once, servers included, and started again on the same home."""

import os
import signal
import time

import pytest

from tests.trouble.world import HEAD, eventually

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("world"), pytest.mark.timeout(600)]

AWAY_S = 8.0
"""Longer than a node may be silent: the absence must not be taken for anybody else's."""
RECOVERED_S = 100.0


def start_again(plane, yard):
    plane.start()
    assert plane.url == yard.url


def is_whole(steps):
    return steps == list(range(1, len(steps) + 1))


def test_what_happens_while_nobody_watches_is_answered_once_and_nobody_else_is_blamed(plane, yard, story):
    plane.kill()
    time.sleep(AWAY_S)
    mark = time.time()
    story.kill_rank(1)
    time.sleep(3)
    start_again(plane, yard)
    assert story.recovers(limit_s=120)["class"] == "crash"
    assert time.time() - mark < RECOVERED_S
    assert story.attempt()["resume_step"] > 0
    assert is_whole(story.steps(1))
    assert story.commands("attempt.start") == [1, 2]
    assert len(story.incidents()) == 1

    # The launcher's word on the stop and the launch comes when nobody is there to hear it.
    os.kill(yard.agents[HEAD].pid, signal.SIGSTOP)
    try:
        story.kill_rank(2)
        eventually(lambda: 2 in story.commands("attempt.stop"), "the death was not answered", 20)
        plane.kill()
    finally:
        os.kill(yard.agents[HEAD].pid, signal.SIGCONT)
    time.sleep(2)
    start_again(plane, yard)
    story.recovers(limit_s=120)
    story.goes_on()
    assert story.commands("attempt.start") == [1, 2, 3]
    assert {incident["class"] for incident in story.incidents()} == {"crash"}
