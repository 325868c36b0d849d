"""The demonstration's run under a real Slurm: a real torch run whose host freezes, and nobody helps."""

import json
import subprocess
import sys

import pytest

from controlplane.demo import slurm_lab
from tests.demo.test_real_run import DEMO_LIMIT_S, ROOT, below, environ, training_left

__all__ = ["below"]


@pytest.mark.slow
@pytest.mark.timeout(DEMO_LIMIT_S)
@pytest.mark.xdist_group("torch")
@pytest.mark.skipif(bool(slurm_lab.missing()), reason=f"needs Slurm: apt-get install {slurm_lab.PACKAGES}")
def test_a_run_under_slurm_outlives_a_host_that_freezes(below):
    path = below / "report.json"
    argv = [sys.executable, "manage.py", "demo", "--scheduler", "slurm", "--faults", "frozen", "--exit"]
    done = subprocess.run(
        [*argv, "--report", str(path)], check=False, cwd=ROOT, env=environ(below), capture_output=True, text=True,
        timeout=DEMO_LIMIT_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(path.read_text())
    (row,) = told["faults"]
    assert (row["kind"], row["class"], row["unattended"]) == ("frozen", "node_lost", True)
    assert 0 <= row["detected_s"] <= row["decided_s"] <= row["resumed_s"]
    assert "takes the place of n2" in told["chronicle"]
    assert not training_left(below), "a rank outlived the demonstration"
    assert not slurm_left(below), "a part of Slurm outlived the demonstration"


def slurm_left(place):
    """Return the command lines that name a folder below `place`."""
    listed = subprocess.run(["ps", "-eo", "args"], check=True, capture_output=True, text=True).stdout
    return [line for line in listed.splitlines() if str(place) in line and "slurm" in line]
