"""Agents killed and started again: ranks train on, nothing is told twice, and a recovery under way ends."""

import time

import pytest

from tests.trouble.world import HEAD, eventually

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("world")]


def pids(story):
    return sorted(pid for _, pid in story.ranks())


def test_an_agent_killed_and_started_again_is_no_incident_unless_a_rank_dies_meanwhile(yard, story):
    before = pids(story)
    for _ in range(3):
        yard.kill_agent("n02")
        time.sleep(0.5)
        yard.start_agent("n02")
        time.sleep(1.0)
    story.goes_on()
    assert pids(story) == before
    assert told_of_ranks(yard, story, "rank.started", "n02") == 1

    yard.kill_agent("n01")
    away_from = time.time()
    time.sleep(0.3)
    yard.start_agent("n01")
    story.goes_on()
    away_s = time.time() - away_from
    steps = story.steps(1)
    assert steps == sorted(set(steps)), "a step was told twice, or out of order"
    assert len(steps) >= steps[-1] - away_s / 0.1, "more was lost than was said while nobody listened"
    assert story.incidents() == []

    yard.kill_agent("n03")
    story.kill_rank(2)
    time.sleep(0.5)
    yard.start_agent("n03")
    incident = story.recovers()
    assert incident["class"] == "crash"
    assert story.commands("attempt.start") == [1, 2]
    assert told_of_ranks(yard, story, "rank.exited", "n03") == 1


def told_of_ranks(yard, story, kind, node):
    query = "SELECT count(*) FROM events_event WHERE run = %s AND attempt = 1 AND kind = %s AND node = %s"
    return yard.rows(query, story.run, kind, node)[0][0]


def test_the_launcher_killed_while_it_carries_out_a_command(yard, story):
    for kind in ("attempt.stop", "attempt.start"):
        known = len(story.commands(kind))
        story.kill_rank(1)
        eventually(lambda kind=kind, known=known: len(story.commands(kind)) > known, f"no {kind} was sent", 30)
        yard.kill_agent(HEAD)
        time.sleep(1.0)
        yard.start_agent(HEAD)
        story.recovers(limit_s=120)
        assert sorted(rank for rank, _ in story.ranks()) == [0, 1, 2]
    starts = story.commands("attempt.start")
    assert starts == sorted(set(starts)), "an attempt was started twice"
