"""One control plane and five agents for all stories; each story launches a run of its own."""

import pytest

from tests.servers import temporary_home
from tests.trouble.serving import Serving
from tests.trouble.world import Yard


@pytest.fixture(scope="package")
def plane():
    """A control plane of which a test may stop parts, or kill all; it is left running.

    It ends with the last story: an idle one costs the tests after it a tenth of a core.
    """
    with temporary_home() as home:
        running = Serving(home)
        yield running
        running.close()


@pytest.fixture(scope="package")
def yard(plane):
    told = plane.told
    made = Yard(plane, enrol=told["enrol"], api=told["api"])
    try:
        made.start_agents()
        yield made
    finally:
        made.close()


@pytest.fixture(autouse=True)
def _whole(request):
    """Begin with a control plane and agents that live, whatever an earlier test that failed has left."""
    if {"yard", "plane", "story"} & set(request.fixturenames):
        request.getfixturevalue("yard").make_whole()


@pytest.fixture
def story(yard):
    """A run that trains; it is stopped afterwards."""
    launched = yard.launch()
    yield launched
    launched.stop()
