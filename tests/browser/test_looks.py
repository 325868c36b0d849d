"""Pages as people meet them: both themes, a phone and a desk, with scripts and without.

With `MIDDLEWATCH_SCREENSHOTS=folder` each page is also kept as a picture there.
"""

import os
from pathlib import Path

import pytest

from tests.web.world import build, person

AXE = (Path(__file__).parent / "vendor/axe-4.10.3.min.js").read_text()
SHOTS = os.environ.get("MIDDLEWATCH_SCREENSHOTS", "")
PAGES = {
    "fleet": "/", "incident": "/incidents/{incident}/", "run": "/runs/llama-70b-v3/", "node": "/nodes/n07/",
    "incidents": "/incidents/", "quarantine": "/quarantine/", "execution": "/executions/{execution}/",
    "styleguide": "/styleguide/", "detectors": "/runs/llama-70b-v3/detectors/",
    "replay": "/incidents/{incident}/replay/", "runbooks": "/runbooks/",
    "runbook": "/runbooks/recover-hang/?incident={incident}", "guards": "/guards/",
    "switch": "/guards/switch/?run=llama-70b-v3", "notifications": "/settings/notifications/",
}  # fmt: skip
WIDTHS = (360, 1280)
THEMES = ("light", "dark")
SERIOUS = {"serious", "critical"}


def _open(visit, aside, path, **how):
    user = aside(person)
    world = aside(build)
    page = visit(user, path.format(incident=world.incident.pk, execution=world.execution.pk), **how)
    if how.get("scripts", True):
        page.wait_for_selector("#freshness[data-state=live]")
    return page


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_readable_by_everybody_and_never_scrolls_sideways(visit, aside, name):
    page = visit(aside(person), PAGES[name]) if name == "styleguide" else _open(visit, aside, PAGES[name])
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 780})
        for theme in THEMES:
            page.emulate_media(color_scheme=theme)
            keep(page, f"{name}-{width}-{theme}")
            assert page.evaluate("document.documentElement.scrollWidth") <= width, (width, theme)
            assert violations(page) == [], (width, theme)


def keep(page, name):
    """Take pictures, where they are asked for."""
    if SHOTS:
        page.wait_for_timeout(300)
        page.screenshot(path=f"{SHOTS}/{name}.png")
        page.screenshot(path=f"{SHOTS}/{name}-full.png", full_page=True)


def violations(page):
    """What axe-core finds; it is run by the test, outside the page's content security policy."""
    page.evaluate(AXE)
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        (one["id"], [node["target"] for node in one["nodes"]][:4], one["nodes"][0].get("failureSummary"))
        for one in found["violations"] if one["impact"] in SERIOUS
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["fleet", "incident", "run"])
def test_without_scripts_the_facts_still_show(visit, aside, name):
    page = _open(visit, aside, PAGES[name], width=360, scripts=False)
    text = page.inner_text("main")
    assert {"fleet": "1 of 2 runs is recovering without you", "incident": "Rank 412 hung on n04", "run": "81\u202f400"}[
        name
    ] in text
    assert page.inner_text("#freshness").startswith("Shown ")


def test_without_scripts_an_incident_can_be_acknowledged(visit, aside):
    page = _open(visit, aside, PAGES["incident"], width=360, scripts=False)
    page.click("#acts button")
    assert "acknowledged by ana" in page.inner_text("#state")


def test_the_two_buttons_of_the_night_are_thumb_size_and_fixed_at_the_bottom(visit, aside):
    page = _open(visit, aside, PAGES["incident"], width=360, height=740)
    for button in page.query_selector_all("#acts button"):
        box = button.bounding_box()
        assert box["height"] >= 48
        assert box["y"] + box["height"] <= 740
    page.mouse.wheel(0, 900)
    assert page.query_selector("#acts button").bounding_box()["y"] > 600


def test_the_sentence_is_the_largest_text_and_stands_in_the_first_screen(visit, aside):
    page = _open(visit, aside, PAGES["incident"], width=360, height=740)
    sizes = page.evaluate("[...document.querySelectorAll('main *')].map(e => parseFloat(getComputedStyle(e).fontSize))")
    assert float(page.evaluate("parseFloat(getComputedStyle(document.getElementById('headline')).fontSize)")) == max(
        sizes
    )
    assert (
        page.query_selector("#state").bounding_box()["y"] + page.query_selector("#state").bounding_box()["height"] < 680
    )


def test_keyboard_users_can_skip_to_the_content(visit, aside):
    page = _open(visit, aside, PAGES["fleet"])
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "content"
