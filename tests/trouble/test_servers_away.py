"""PostgreSQL or Valkey gone for a minute under a training run: nothing is lost, nobody is blamed."""

import json
import re
import shutil
import time
import urllib.error
import urllib.parse
import urllib.request
from contextlib import contextmanager, suppress

import pytest

from tests.patience import within
from tests.trouble.world import eventually

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("away"), pytest.mark.timeout(600)]

AWAY_S = 60.0
JUDGED_S = 5.0
"""Long enough for the sweeps to judge what came in after an outage."""
BACK_S = 45.0


@contextmanager
def away(plane, name):
    """Stop a server and keep it down for the length of the block."""
    plane.halt(name)
    try:
        yield
    finally:
        plane.revive(name)


def status(opener, url):
    try:
        with opener.open(url, timeout=10) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


@pytest.fixture(scope="module")
def visitor(plane):
    """Somebody who has signed in."""
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    link = json.loads(plane.manage("welcome", "--link"))["link"]
    page = opener.open(link, timeout=10).read().decode()
    fields = re.findall(r'<input[^>]*name="([^"]+)"[^>]*value="([^"]*)"', page)
    with suppress(urllib.error.HTTPError):
        opener.open(
            urllib.request.Request(link, urllib.parse.urlencode(fields).encode(), {"Referer": link}), timeout=10
        )
    return opener


def is_whole(steps):
    return steps == list(range(1, len(steps) + 1))


def test_postgresql_away_loses_no_step_and_blames_nobody_but_who_dies_meanwhile(plane, story, visitor):
    before = plane.pids()
    address, nowhere = f"{plane.url}/runs/{story.run}/", f"{plane.url}/nowhere"
    assert (status(visitor, address), status(visitor, nowhere)) == (200, 404)
    with away(plane, "postgres"):
        time.sleep(AWAY_S)
        assert status(visitor, f"{plane.url}/healthz") == 200
        assert status(visitor, f"{plane.url}/readyz") == 503
        assert (status(visitor, address), status(visitor, nowhere)) == (503, 503)
    eventually(lambda: status(visitor, address) == 200, "the pages did not come back", 30)
    assert all(status(visitor, nowhere) == 404 for _ in range(10))
    story.goes_on()
    time.sleep(JUDGED_S)
    assert story.incidents() == []
    assert is_whole(story.steps(1))
    after = plane.pids()
    assert all(after[name] == before[name] for name in ("web", "worker", "beat"))

    with away(plane, "postgres"):
        story.kill_rank(1)
        time.sleep(3)
    incident = story.recovers()
    assert incident["class"] == "crash"
    assert story.commands("attempt.start") == [1, 2]


def test_valkey_away_loses_nothing_and_a_rank_killed_meanwhile_is_recovered(plane, story):
    with away(plane, "valkey"):
        shutil.rmtree(plane.home / "control/servers/valkey/appendonlydir")  # it comes back empty
    story.goes_on()
    assert story.incidents() == []

    with away(plane, "valkey"):
        mark = len(story.steps(1))
        eventually(lambda: len(story.steps(1)) > mark + 10, "ingest takes nothing in", 20)
        story.kill_rank(2)
        time.sleep(AWAY_S)
    began = time.monotonic()
    incident = story.recovers()
    assert incident["class"] == "crash"
    assert time.monotonic() - began < within(BACK_S)
    assert story.commands("attempt.start") == [1, 2]
    assert is_whole(story.steps(1))
