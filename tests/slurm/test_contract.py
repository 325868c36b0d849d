"""The Slurm adapter keeps the contract, on a real Slurm."""

import pytest

from tests.agent.launcher.contract import Contract


class TestSlurm(Contract):
    @pytest.fixture
    def stage(self, site):
        return site
