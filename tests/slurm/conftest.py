"""One real Slurm for all tests of this folder, made clean between them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from controlplane.demo import slurm_lab
from controlplane.demo.slurm_lab import NODES, SlurmLab
from tests.agent.launcher.stage import Cluster

HEAD = """
scheduler = "slurm"
[slurm]
conf = "{conf}"
poll_s = 0.1
tool_s = 6
fence_s = 1.5
order_s = 1.0
"""
OVERTIME = "overtime"
HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep every test of the real Slurm on one worker, which starts it once; what needs time comes last."""
    items.sort(key=lambda item: OVERTIME in getattr(item, "fixturenames", ()))
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.xdist_group("slurm"))


@pytest.fixture(scope="package")
def overtime(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """An attempt whose time is over, on a Slurm of its own; skips where Slurm is not installed.

    Slurm looks at time limits every thirty seconds. So it is begun before the first test and looked at in the last.
    """
    if slurm_lab.missing():
        pytest.skip(f"needs Slurm: apt-get install {slurm_lab.PACKAGES}")
    folder = tmp_path_factory.mktemp("overtime")
    with SlurmLab(folder, nodes=("n1",)) as lab:
        limited = HEAD.format(conf=lab.config) + 'save_s = 0\noptions = { time = "10" }\n'
        made = Cluster(folder, ("n1",), limited)
        job = made.start(nodes=("n1",)).data["job_id"]
        made.pid(0)
        lab.tool("scontrol", "update", f"jobid={job}", "EndTime=now")
        yield made
        made.close()


@pytest.fixture(scope="package")
def running_lab(overtime: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmLab]:
    """Four idle nodes; `overtime` is asked for, so that it begins here."""
    with SlurmLab(tmp_path_factory.mktemp("slurm")) as lab:
        yield lab


@pytest.fixture
def lab(running_lab: SlurmLab) -> SlurmLab:
    """Four idle nodes and an empty queue, whatever the test before has left."""
    running_lab.clean()
    return running_lab


@pytest.fixture
def site(lab: SlurmLab, tmp_path: Path) -> Iterator[Cluster]:
    """A launcher at the head of the four nodes, whose ranks run a short Python text."""
    made = Cluster(tmp_path, NODES, HEAD.format(conf=lab.config))
    yield made
    lab.clean()
    made.close()
