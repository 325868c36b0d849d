import pytest

from controlplane.watch import fleet, pipeline
from tests.flows.world import Cluster


@pytest.fixture(autouse=True)
def _fresh_memory():
    """Each test is a new process as far as the reducers' memory goes."""
    pipeline.memory.forget()
    fleet.memory.forget()


@pytest.fixture
def cluster(db):
    """A run of four nodes that trains and has saved a checkpoint."""
    return trained(Cluster().build())


def trained(world, steps=7):
    world.launch()
    world.until(lambda: world.step > 0)
    world.rest(steps - world.step)
    assert world.step == steps
    return world
