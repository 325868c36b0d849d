"""What every test may use, and the notice about what could not be tested here."""

import contextlib
import shutil
from collections.abc import Iterator

import pytest
import redis
from django.db import connection

from controlplane.fleet import hot

CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
RERUN_LINES = 25
"""What is shown of a failure that was followed by another try."""
LONGEST = ("world", "away", "torch", "plane", "replay", "slurm")
"""Groups of tests that take minutes on one worker. Begun last, one would run alone while the others wait."""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes longest; `--no-loadscope-reorder` keeps this order."""
    items.sort(key=_turn)
    for item in items:
        _name_group(item)


def _name_group(item: pytest.Item) -> None:
    """Make the group part of the id, by which the tests are dealt out to workers.

    pytest-xdist 3.8 writes it to `_nodeid`, which pytest 9.2 reads no more: the tests
    of a group would go to all workers, and each would start the group's servers.
    """
    grouped = getattr(item, "_nodeid", item.nodeid)
    if grouped != item.nodeid:
        item._id = type(item.id).parse(grouped)


def _turn(item: pytest.Item) -> int:
    group = next((mark.args[0] for mark in item.iter_markers("xdist_group")), "")
    return LONGEST.index(group) if group in LONGEST else len(LONGEST)


@pytest.fixture(scope="session")
def chromium() -> str:
    """Path of the system's Chromium; skips the test where there is none."""
    found = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if not found:
        pytest.skip("needs Chromium: apt-get install chromium")
    return found


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup, django_db_blocker) -> Iterator[None]:
    """At the end, end the sessions of threads that are no more: a database that is in use cannot be dropped."""
    yield
    with django_db_blocker.unblock(), connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )


@pytest.fixture(autouse=True)
def nothing_hot(request: pytest.FixtureRequest) -> None:
    """A test's rows are rolled back, but Redis would remember what pages read of them."""
    if request.node.get_closest_marker("django_db") is not None or "db" in request.fixturenames:
        with contextlib.suppress(redis.RedisError):
            hot._client().delete(hot.nodes_key(), hot.runs_key())


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Count aloud what was skipped, since a skipped test has proved nothing, and say why others were run again."""
    for report in terminalreporter.stats.get("rerun", []):
        terminalreporter.section(f"run again: {report.nodeid} ({report.when})", sep="-")
        terminalreporter.write_line("\n".join(report.longreprtext.splitlines()[-RERUN_LINES:]))
    skipped = terminalreporter.getreports("skipped")
    if not skipped:
        return
    reasons: dict[str, int] = {}
    for report in skipped:
        reason = _reason(report)
        reasons[reason] = reasons.get(reason, 0) + 1
    terminalreporter.section(f"{len(skipped)} tests were NOT run on this machine", sep="!", red=True, bold=True)
    for reason, count in sorted(reasons.items(), key=lambda item: -item[1]):
        terminalreporter.write_line(f"{count:4d} × {reason}")


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    told = report.longrepr
    text = told[2] if isinstance(told, tuple) else str(told)
    return text.removeprefix("Skipped: ")
