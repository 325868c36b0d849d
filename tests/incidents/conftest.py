"""What the tests of incidents share: one run with one attempt on n1 and n2."""

from datetime import UTC, datetime

import pytest

from controlplane.runs import actions as runs
from controlplane.runs.models import Run

NOW = datetime(2026, 11, 29, 3, 0, tzinfo=UTC)


@pytest.fixture
def run(db: None) -> Run:
    """Make a run whose first attempt is alive."""
    run = runs.create_run("demo", launcher="head", nodes_wanted=2, now=NOW)
    runs.open_attempt(run, ["n1", "n2"], runs.Resume(), NOW)
    return run
