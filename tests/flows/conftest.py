import pytest

from controlplane.watch import fleet, pipeline
from tests.flows.copies import once
from tests.flows.world import Cluster


@pytest.fixture(autouse=True)
def _fresh_memory():
    """Each test is a new process as far as the reducers' memory goes."""
    forget()


@pytest.fixture
def cluster(db):
    """A run of four nodes that trains and has saved a checkpoint."""
    return training()


def training(*, steps=7, **how):
    """Give a `Cluster(**how)` whose run trains: made once, copied from then on."""
    forget()
    return once(f"{steps} steps of {how}", lambda: trained(Cluster(**how).build(), steps))


def trained(world, steps=7):
    world.launch()
    world.until(lambda: world.step > 0)
    world.rest(steps - world.step)
    assert world.step == steps
    return world


def forget():
    pipeline.memory.forget()
    fleet.memory.forget()
