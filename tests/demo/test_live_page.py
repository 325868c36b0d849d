"""A real browser watches a real recovery, loses its socket in the middle, and misses nothing."""

import io
import os
import re
import signal
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import sync_playwright

from controlplane.demo.cluster import HEAD
from controlplane.demo.faults import FAULTS
from controlplane.demo.narrator import Narrator
from controlplane.demo.world import World
from tests.browser.conftest import ARGS, CHROMIUM
from tests.patience import within

LIMIT_S = 600
VICTIM = 2
LINK = r"open (\S+)"
OF_THE_CUT = ("WebSocket", "ERR_CONNECTION", "ERR_INCOMPLETE", "htmx:ws:error", "Failed to fetch")
"""What the browser says of a server that was killed, and rightly so."""
BUTTONS_FIT = "document.getElementById('acts').dataset.signature === document.getElementById('state').dataset.acts"
RECOVERED_MS = 90_000
BACK_MS = 60_000

pytestmark = [
    pytest.mark.slow,
    pytest.mark.browser,
    pytest.mark.timeout(LIMIT_S),
    pytest.mark.xdist_group("torch"),
    pytest.mark.skipif(not Path(CHROMIUM).exists(), reason="Chromium is not installed: browser tests were skipped"),
]


@pytest.fixture
def told():
    return io.StringIO()


@pytest.fixture
def world(tmp_path, told):
    tmp_path.chmod(0o755)
    with World.opened(tmp_path, Narrator(told)) as opened:
        yield opened


@pytest.fixture
def page(world, told):
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGS)
        page = browser.new_page(viewport={"width": 360, "height": 780}, timezone_id="Europe/Berlin")
        page.troubles = []
        page.on("console", lambda line: page.troubles.append(line.text) if line.type == "error" else None)
        page.on("pageerror", lambda error: page.troubles.append(str(error)))
        page.goto(re.search(LINK, told.getvalue())[1])
        page.wait_for_url(world.plane.url + "/")
        yield page
        browser.close()


def test_an_incident_page_follows_a_real_recovery_across_a_killed_web_process(world, page):
    story = world.story()
    story.first_steps()
    story.steady()
    page.goto(f"{world.plane.url}/incidents/")  # what a page needs is loaded before there is anything to miss
    page.wait_for_selector("#freshness[data-state=live]")
    victim = next(process for process in world.cluster.ranks() if process.rank == VICTIM)
    with launcher_asleep(world):  # the recovery cannot be over before the page has lost its socket
        known = incidents(world)  # a busy machine may have raised a suspicion that cleared
        FAULTS["crash"].hurt(world.cluster, victim)
        wait_for(page, lambda: incidents(world) - known, "nothing was found")
        incident = max(incidents(world))
        page.goto(f"{world.plane.url}/incidents/{incident}/")
        page.wait_for_selector("#freshness[data-state=live]")
        seen = numbers(page)
        world.client.post(f"/incidents/{incident}/note", text="I am looking at it")
        wait_for(page, lambda: len(numbers(page)) > len(seen), "no entry arrived while the page was open")
        page.evaluate("window.sameDocument = true")
        os.kill(world.plane.pids()["web"], signal.SIGKILL)
        page.wait_for_selector("#freshness:not([data-state=live])")
        missed_from = len(numbers(page))
    page.wait_for_selector("#freshness[data-state=live]", timeout=BACK_MS)
    page.wait_for_selector("#state.tone-good", timeout=RECOVERED_MS)
    page.wait_for_selector("#chronicle-list .badge:has-text('Resolved')", timeout=RECOVERED_MS)

    wait_for(page, lambda: page.evaluate(BUTTONS_FIT), "the buttons do not fit the state that is shown")
    wait_for(page, lambda: numbers(page) == numbers_of(chronicle(world, incident)), "the page lacks entries")
    entries = chronicle(world, incident)
    assert len(entries) > missed_from
    assert numbers(page) == numbers_of(entries)
    assert sentences(page) == [entry["sentence"] for entry in reversed(entries)]
    assert page.evaluate("window.sameDocument"), "the page was loaded anew instead of being caught up"
    assert "recovered after" in page.inner_text("#headline")
    assert page.title() == f"{page.inner_text('#headline')} · Middlewatch"
    assert [line for line in page.troubles if not any(word in line for word in OF_THE_CUT)] == []


@contextmanager
def launcher_asleep(world):
    pid = world.cluster.agents[HEAD]
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def wait_for(page, true, why, limit_s=30):
    """Poll from here: the page's content security policy forbids Playwright's own polling."""
    deadline = time.monotonic() + within(limit_s)
    while not true():
        assert time.monotonic() < deadline, why
        page.wait_for_timeout(50)


def incidents(world):
    return {row["id"] for row in world.client.get("/incidents?limit=50")["items"]}


def chronicle(world, incident):
    return world.client.get(f"/incidents/{incident}/chronicle?limit=200")["items"]


def numbers_of(entries):
    return [entry["number"] for entry in reversed(entries)]


def numbers(page):
    return page.eval_on_selector_all("#chronicle-list > li", "all => all.map(one => Number(one.dataset.number))")


def sentences(page):
    return page.eval_on_selector_all("#chronicle-list .said", "all => all.map(one => one.textContent.trim())")
