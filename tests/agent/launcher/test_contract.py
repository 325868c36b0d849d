"""The local adapter keeps the contract."""

import pytest

from tests.agent.launcher.contract import Contract


class TestLocal(Contract):
    @pytest.fixture
    def stage(self, cluster):
        return cluster
