"""Worker, beat and web killed one after another in the middle of a recovery: it ends, each effect once."""

import os
import signal
import time

import pytest
import urllib3

from tests.trouble.world import eventually

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("world")]

PROGRAMS = ("worker", "beat", "web")
BACK_S = 60.0
"""The supervisor waits longer each time a program crashes soon after its start."""


def kill(plane, name):
    os.kill(plane.pids()[name], signal.SIGKILL)


def all_back(plane):
    eventually(lambda: plane.pids().keys() >= set(PROGRAMS), "a program was not started again", BACK_S)
    eventually(lambda: answers(plane), "the pages did not come back", BACK_S)


def answers(plane):
    try:
        return urllib3.request("GET", f"{plane.url}/readyz", retries=False, timeout=5).status == 200
    except urllib3.exceptions.HTTPError:
        return False


def doubled_sentences(story):
    query = """SELECT s.name, e.sentence, count(*) FROM chronicle_entry e JOIN chronicle_stream s ON s.id = e.stream_id
               WHERE s.name = %s OR s.name = ANY(%s) GROUP BY 1, 2 HAVING count(*) > 1"""
    incidents = [f"incident:{incident['id']}" for incident in story.incidents()]
    return story.yard.rows(query, f"run:{story.run}", incidents)


def test_every_program_killed_in_turn_while_a_recovery_goes_on(plane, story):
    story.kill_rank(1)
    for name in PROGRAMS:
        kill(plane, name)
        time.sleep(0.7)
    all_back(plane)
    incident = story.recovers(limit_s=120)
    assert incident["class"] == "crash"
    assert story.commands("attempt.start") == [1, 2]
    assert story.commands("attempt.stop") in ([1], [])
    assert doubled_sentences(story) == []
    assert len(story.incidents()) == 1


def test_the_worker_killed_in_the_middle_of_a_recovery(plane, story):
    story.kill_rank(2)
    eventually(lambda: story.commands("attempt.stop"), "no runbook was started", 30)
    kill(plane, "worker")
    incident = story.recovers(limit_s=120)
    all_back(plane)
    assert incident["class"] == "crash"
    assert story.commands("attempt.start") == [1, 2]
    assert doubled_sentences(story) == []
