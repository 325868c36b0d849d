"""One control plane and five agents for the whole session; each test launches a run of its own."""

import json

import pytest

from controlplane.embedded.plane import ControlPlane
from tests.servers import temporary_home
from tests.trouble.world import Yard


@pytest.fixture(scope="session")
def plane():
    """A control plane whose programs a test may stop and start."""
    with (
        temporary_home() as home,
        ControlPlane(home / "control", database_url="", redis_url="", durable=False, say=print) as running,
    ):
        yield running


@pytest.fixture(scope="session")
def yard(plane):
    welcome = json.loads(plane.manage("welcome", "--link"))
    api = plane.manage("api-token", welcome["name"], "trouble").strip()
    made = Yard(plane.home.path.parent, plane.url, plane.database_url, enrol=welcome["token"], api=api)
    try:
        made.start_agents()
        yield made
    finally:
        made.close()


@pytest.fixture
def story(yard):
    """A run that trains; it is stopped afterwards."""
    launched = yard.launch()
    yield launched
    launched.stop()
