"""The real ASGI application in a process of its own, and a real Chromium in front of it."""

import os
import shutil
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from django.conf import settings
from django.db import connection
from django.test import Client
from playwright.sync_api import sync_playwright

from controlplane.live import actions

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or "/usr/bin/chromium"
ARGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
ROOT = Path(__file__).resolve().parents[2]
START_S = 40
APPLICATION = "controlplane.asgi:application"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Browser tests share one worker, or each worker would start a server and a browser of its own."""
    missing = pytest.mark.skip(reason="Chromium is not installed: browser tests were skipped")
    for item in items:
        if "tests/browser/" not in str(item.path):
            continue
        item.add_marker(pytest.mark.browser)
        item.add_marker(pytest.mark.xdist_group("browser"))
        if not Path(CHROMIUM).exists():
            item.add_marker(missing)


def _address():
    """The test database's address, for another process."""
    place = connection.settings_dict
    port, query = place["PORT"] or 5432, ""
    host = str(place["HOST"] or "127.0.0.1")
    if host.startswith("/"):
        host, query = "", f"?host={host}"
    return f"postgresql://{place['USER']}:{place['PASSWORD']}@{host}:{port}/{place['NAME']}{query}"


class Server:
    """uvicorn in its own process, always on the same port, so that a page finds it again after a kill."""

    def __init__(self):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.process = None

    def start(self):
        environment = {
            **os.environ,
            "DATABASE_URL": _address(),
            "DJANGO_SETTINGS_MODULE": "controlplane.settings.test",
            "MIDDLEWATCH_SECRET_KEY": settings.SECRET_KEY,
        }
        self.process = subprocess.Popen(
            [sys.executable, "-m", "uvicorn", APPLICATION, "--port", str(self.port), "--log-level", "warning"],
            cwd=ROOT,
            env=environment,
        )
        self._wait()

    def _wait(self):
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            assert self.process.poll() is None, "the server ended by itself"
            try:
                urllib.request.urlopen(f"{self.url}/sign-in/", timeout=2)
            except OSError:
                time.sleep(0.1)
            else:
                return
        pytest.fail("the server did not start in time")

    def kill(self):
        """End it as a crash does: sockets break without a word."""
        self.process.kill()
        self.process.wait(10)


@pytest.fixture(scope="package")
def server(django_db_setup, django_db_blocker):
    running = Server()
    with django_db_blocker.unblock():
        running.start()
    yield running
    running.kill()


@pytest.fixture(scope="module")
def chromium():
    """Playwright keeps an event loop in this thread, so it is gone again before other modules run.

    Django refuses to flush the database beside a running loop unless it is told that nothing else uses the connection.
    """
    with pytest.MonkeyPatch.context() as patch, sync_playwright() as playwright:
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "1")
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def aside():
    """Run database work in a thread of its own: Playwright keeps an event loop in this one."""
    pool = ThreadPoolExecutor(1)

    def run(work: Callable, *args, **kwargs):
        def guarded():
            try:
                return work(*args, **kwargs)
            finally:
                connection.close()

        return pool.submit(guarded).result(60)

    yield run
    pool.shutdown()


@pytest.fixture
def beating():
    """Let the workers' beat go on, as beat and a worker would."""
    over = threading.Event()

    def beat():
        while not over.wait(0.5):
            actions.flush(actions.now_ms())
        connection.close()

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    yield
    over.set()
    thread.join(10)


@pytest.fixture
def visit(transactional_db, server, chromium, aside, beating):
    """Open pages as a signed-in person: `visit(user, path, width=…, theme=…)`; fails on any console error."""
    contexts, troubles = [], []

    def cookie(user):
        client = Client()
        client.force_login(user)
        return client.cookies[settings.SESSION_COOKIE_NAME].value

    def go(user, path, *, width=1280, theme="light", scripts=True, height=900, clock=False):
        context = chromium.new_context(
            viewport={"width": width, "height": height},
            color_scheme=theme,
            java_script_enabled=scripts,
            reduced_motion="reduce",
            timezone_id="Europe/Berlin",
            locale="en-GB",
        )
        contexts.append(context)
        if user is not None:
            context.add_cookies(
                [{"name": settings.SESSION_COOKIE_NAME, "value": aside(cookie, user), "url": server.url}]
            )
        if clock:
            context.clock.install()
        page = context.new_page()
        page.on("console", lambda line: troubles.append(line.text) if line.type == "error" else None)
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.goto(server.url + path)
        return page

    go.troubles = troubles
    yield go
    for context in contexts:
        context.close()
    assert not troubles, troubles
