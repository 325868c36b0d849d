import pytest

from tests.agent.launcher.stage import Cluster


@pytest.fixture
def cluster(tmp_path):
    made = Cluster(tmp_path)
    yield made
    made.close()
