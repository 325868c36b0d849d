"""Make the README's picture: one incident on a desk and on a phone, in the middle of a real recovery.

    python bench/picture.py [docs/images/incident.png]

It brings up the demonstration, takes a node's power away, and photographs the incident page while the
runbook waits for the new attempt. The frame around both is drawn by the same Chromium.
"""

import base64
import io
import re
import sys
import time
from pathlib import Path

from playwright.sync_api import Browser, Page, ViewportSize, sync_playwright

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from controlplane.demo.faults import FAULTS  # noqa: E402 - the repository is put on the path first
from controlplane.demo.narrator import Narrator  # noqa: E402
from controlplane.demo.world import World  # noqa: E402
from tests.servers import temporary_home  # noqa: E402

CHROMIUM = "/usr/bin/chromium"
ARGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars"]
DESK: ViewportSize = {"width": 1280, "height": 860}
PHONE: ViewportSize = {"width": 360, "height": 860}
VICTIM = 3
MOMENT = re.compile(r"Step 7 of 8")
LIMIT_S = 60
FRAME = """<body style="margin:0;background:#26323f;display:inline-flex;gap:28px;padding:28px">
<style>img {{ border-radius: 10px }}</style>
<img src="data:image/png;base64,{}"><img src="data:image/png;base64,{}">"""


def main(target: Path) -> None:
    """Bring the world up, hurt it, and write the picture to `target`."""
    told = io.StringIO()
    with temporary_home() as home, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGS)
        with World.opened(home, Narrator(told)) as world:
            shots = photograph(browser, world, told.getvalue())
        page = browser.new_page(viewport={"width": DESK["width"] + PHONE["width"] + 84, "height": DESK["height"] + 56})
        page.set_content(FRAME.format(*(base64.b64encode(shot).decode() for shot in shots)))
        page.screenshot(path=target)
        browser.close()
    print(f"{target}: {target.stat().st_size // 1000} kB")


def photograph(browser: Browser, world: World, told: str) -> list[bytes]:
    """Hurt the run, and return the incident page as a desk (dark) and a phone (light) show it."""
    desk = browser.new_page(viewport=DESK, color_scheme="dark")
    desk.goto(re.findall(r"open (\S+)", told)[0])
    desk.wait_for_url(world.plane.url + "/")
    phone = browser.new_context(
        viewport=PHONE, color_scheme="light", storage_state=desk.context.storage_state()
    ).new_page()
    world.story().first_steps()
    victim = next(process for process in world.cluster.ranks() if process.rank == VICTIM)
    FAULTS["node-loss"].hurt(world.cluster, victim)
    address = f"{world.plane.url}/incidents/{_incident(world)}/"
    for page in (desk, phone):
        page.goto(address)
    _wait(desk)
    return [page.screenshot() for page in (desk, phone)]


def _incident(world: World) -> int:
    deadline = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline:
        rows = world.client.get("/incidents?limit=1")["items"]
        if rows:
            return int(rows[0]["id"])
        time.sleep(0.05)
    raise SystemExit("no incident was opened")


def _wait(page: Page) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not MOMENT.search(page.inner_text("#state")):
        if time.monotonic() > deadline:
            raise SystemExit("the recovery did not come to its launch")
        page.wait_for_timeout(50)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs/images/incident.png")
