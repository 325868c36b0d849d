"""The control plane's own clock stood in the wrong zone and is set right while a run trains."""

from datetime import timedelta

import pytest

from tests.flows import world
from tests.flows.conftest import training

AHEAD = timedelta(hours=1)
REST_S = 120
"""Verdicts may go on resting for as long as they did when the clock was set."""


@pytest.fixture
def cluster(db, monkeypatch):
    """A run whose agents' clocks are right all the time."""
    cluster, real = training(), world.make_event
    cluster.now -= AHEAD

    def said(kind, *, at_ms, **event):
        return real(kind, at_ms=at_ms + AHEAD // timedelta(milliseconds=1), **event)

    monkeypatch.setattr(world, "make_event", said)
    cluster.rest(20)
    assert cluster.incident() is None
    return cluster


def stands_still(cluster):
    cluster.stop_rank(1)


def is_lost(cluster):
    cluster.alive.discard("n02")
    cluster.training = False


@pytest.mark.parametrize("trouble", [stands_still, is_lost])
def test_what_is_judged_by_age_does_not_wait_until_the_clock_has_caught_up(cluster, trouble):
    trouble(cluster)
    cluster.until(cluster.incident, limit=REST_S + 60)
    cluster.until(lambda: len(cluster.launches) == 2)
