"""Everything that may die killed at random while one recovery follows another.

The order is drawn from a seed, so that a failure can be had again. `make test` takes a
few recoveries; `make soak` takes fifty, or as many as MIDDLEWATCH_SOAK says.
"""

import os
import random
import signal
import time
from contextlib import suppress

import psycopg
import pytest
from urllib3.exceptions import HTTPError

from tests.trouble.world import HEAD, TRAINING, eventually

RECOVERIES = int(os.environ.get("MIDDLEWATCH_SOAK", "2"))
SEED = int(os.environ.get("MIDDLEWATCH_SOAK_SEED", "412"))
PER_RUN = 5
"""Recoveries of one run: guards rightly slow down and stop one that is hurt fifty times in an hour."""
KILLS = 3
"""Victims of one recovery."""
SPREAD_S = 5.0
"""The kills of one recovery fall into this time after the fault."""
QUIET_S = 180.0
"""Each recovery ends in this time, however often its servers die."""
PROGRAMS = ("worker", "beat", "web", "postgres", "valkey")

pytestmark = [
    pytest.mark.slow, pytest.mark.xdist_group("world"), pytest.mark.timeout(120 + RECOVERIES * QUIET_S),
]  # fmt: skip


class Killer:
    """Kills what it draws, and starts agents again; programs and servers are their supervisor's to start."""

    def __init__(self, yard, seed):
        self.yard, self.random = yard, random.Random(seed)

    def strike(self, story):
        """Kill a rank, then some of all that works on its recovery."""
        story.kill_rank(self.random.randrange(len(TRAINING)))
        victims = self.random.sample([*PROGRAMS, HEAD, self.random.choice(TRAINING)], KILLS)
        delays = sorted(self.random.uniform(0.0, SPREAD_S) for _ in victims)
        began = time.monotonic()
        for victim, delay in zip(victims, delays, strict=True):
            time.sleep(max(0.0, began + delay - time.monotonic()))
            self.kill(victim)
        return victims

    def kill(self, victim):
        if victim in PROGRAMS:
            pid = self.yard.plane.pids().get(victim)
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL) if pid else None
            return
        self.yard.kill_agent(victim)
        self.yard.start_agent(victim)


def settled(story, before):
    """Tell whether an attempt after `before` trains and nothing about it is open, or a person was called."""
    if story.unfinished() or story.attempt()["number"] <= before:
        return held_with_a_page(story)
    state = story.state()
    return state["state"] == "running" and not [one for one in story.incidents() if not one["mitigated_at"]]


def held_with_a_page(story):
    query = """SELECT count(*) FROM runbooks_execution e JOIN runs_run r ON r.id = e.run_id
               JOIN incidents_actrecord a ON a.incident_id = e.incident_id AND a.do = 'page'
               WHERE r.name = %s AND e.state = 'proposed'"""
    return story.yard.rows(query, story.run)[0][0] > 0


def asked(story, before):
    """Ask while servers may be away."""
    try:
        return settled(story, before)
    except (AssertionError, OSError, HTTPError, psycopg.Error):
        return False


def test_whatever_dies_while_runs_recover_no_step_is_lost_or_done_twice(yard):
    killer, left, held = Killer(yard, SEED), RECOVERIES, 0
    while left:
        story = yard.launch()
        try:
            for _ in range(min(left, PER_RUN)):
                left -= 1
                recover(yard, story, killer, RECOVERIES - left)
                if held_with_a_page(story):
                    held += 1
                    break
            assert_each_effect_happened_once(yard, story)
        finally:
            story.stop()
    assert held <= max(1, RECOVERIES // PER_RUN), f"{held} of {RECOVERIES} recoveries were left to people"


def recover(yard, story, killer, number):
    """Hurt a run and whatever works on its recovery, and wait until it trains on or is held with a page."""
    mark, before = story.state()["high_water_step"], story.attempt()["number"]
    victims = killer.strike(story)
    eventually(yard.answers, "the control plane did not come back", QUIET_S)
    eventually(
        lambda: asked(story, before),
        lambda: f"seed {SEED}, recovery {number}, killed {victims}:\n{story.told()}",
        QUIET_S, poll_s=0.5,
    )  # fmt: skip
    if held_with_a_page(story):
        return
    story.trains(steps=5)
    assert story.state()["high_water_step"] > mark
    assert sorted(rank for rank, _ in story.ranks()) == [0, 1, 2], f"killed {victims}"


def assert_each_effect_happened_once(yard, story):
    starts = story.commands("attempt.start")
    assert starts == sorted(set(starts)), "an attempt was started twice"
    twice = """SELECT s.execution_id, s.index FROM runbooks_steprun s JOIN runbooks_execution e ON e.id = s.execution_id
               JOIN runs_run r ON r.id = e.run_id WHERE r.name = %s AND s.state = 'done'
               GROUP BY 1, 2 HAVING count(*) > 1"""
    assert yard.rows(twice, story.run) == [], "a step was done twice"
    lost = """SELECT e.id FROM runbooks_execution e JOIN runs_run r ON r.id = e.run_id
              WHERE r.name = %s AND e.state = 'succeeded' AND e.step_index + 1 > (
                  SELECT count(DISTINCT s.index) FROM runbooks_steprun s
                  WHERE s.execution_id = e.id AND s.state IN ('done', 'skipped'))"""
    assert yard.rows(lost, story.run) == [], "a step was lost"
    said = """SELECT e.sentence FROM chronicle_entry e JOIN chronicle_stream s ON s.id = e.stream_id
              WHERE s.name = ANY(%s) AND e.kind = 'step' GROUP BY s.name, e.sentence, e.happened_at
              HAVING count(*) > 1"""
    streams = [f"incident:{incident['id']}" for incident in story.incidents()]
    assert yard.rows(said, streams) == [], "a sentence was told twice"
