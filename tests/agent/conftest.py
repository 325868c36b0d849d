from collections.abc import Iterator
from pathlib import Path

import pytest
from middlewatch_agent.config import SpoolLimits
from middlewatch_agent.spool import Spool

from tests.agent.plane import Plane
from tests.agent.process import AgentProcess


@pytest.fixture
def plane() -> Iterator[Plane]:
    running = Plane()
    yield running
    running.close()


@pytest.fixture
def agent(tmp_path, plane) -> Iterator[AgentProcess]:
    with AgentProcess(tmp_path / "n01", plane.url) as running:
        yield running


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[Spool]:
    opened = Spool(tmp_path / "spool.db", SpoolLimits(), incarnation="i1")
    yield opened
    opened.close()
