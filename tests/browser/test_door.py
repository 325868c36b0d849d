"""How people get in, in a real browser."""

import urllib.request
from datetime import UTC, datetime
from urllib.parse import urlsplit

import pytest

from controlplane.access import actions
from controlplane.access.models import User


@pytest.fixture
def ana(transactional_db, aside):
    return aside(User.objects.create_user, "ana", password="right horse battery", role="admin")


@pytest.fixture
def link(ana, aside):
    return urlsplit(aside(actions.make_sign_in_link, ana, datetime.now(UTC))).path


def test_opening_a_one_time_link_signs_in(visit, link):
    page = visit(None, link)
    page.wait_for_url("**/")
    assert "ana" in page.locator("header").inner_text()


def test_a_program_that_fetches_the_link_first_spends_nothing(visit, link, server):
    for _ in range(2):
        assert b"Sign in as ana" in urllib.request.urlopen(server.url + link, timeout=10).read()
    visit(None, link).wait_for_url("**/")


def test_without_scripts_one_button_signs_in(visit, link):
    page = visit(None, link, scripts=False)
    page.get_by_role("button", name="Sign in as ana").click()
    page.wait_for_url("**/")


def test_a_name_and_a_password_sign_in_from_the_keyboard(visit, ana):
    page = visit(None, "/incidents/")
    page.keyboard.type("ana")
    page.keyboard.press("Tab")
    page.keyboard.type("right horse battery")
    page.keyboard.press("Enter")
    page.wait_for_url("**/incidents/")


@pytest.mark.parametrize("path", ["/sign-in/", "/settings/people/", "/password/"])
def test_the_pages_of_the_door_fit_a_phone(visit, ana, path):
    page = visit(None if path == "/sign-in/" else ana, path, width=360)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_the_page_of_the_rest_api_works_under_the_strict_policy(visit, ana):
    page = visit(ana, "/api/v1/docs")
    page.get_by_role("button", name="GET /api/v1/me", exact=False).first.wait_for()
    page.locator("#operations-me-controlplane_web_api_api_get_me .opblock-summary-control").click()
    page.get_by_role("button", name="Try it out").click()
    page.get_by_role("button", name="Execute").click()
    page.locator(".live-responses-table .response-col_status", has_text="200").first.wait_for()
