"""One real training run on real agents, hurt for real, while a real browser watches."""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DEMO_LIMIT_S = 600


@pytest.mark.slow
@pytest.mark.timeout(DEMO_LIMIT_S)
@pytest.mark.xdist_group("torch")
def test_the_demonstration_recovers_from_three_faults_without_a_person(below):
    path = below / "report.json"
    argv = [sys.executable, "manage.py", "demo", "--exit", "--report", str(path)]
    done = subprocess.run(
        argv, check=False, cwd=ROOT, env=environ(below), capture_output=True, text=True, timeout=DEMO_LIMIT_S
    )
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(path.read_text())
    assert [(row["kind"], row["class"]) for row in told["faults"]] == [
        ("crash", "crash"), ("hang", "hang"), ("node-loss", "node_lost"),
    ]  # fmt: skip
    for row in told["faults"]:
        assert row["unattended"]
        assert 0 <= row["detected_s"] <= row["decided_s"] <= row["resumed_s"]
        assert row["steps_lost"] >= 0
    assert 0 < told["goodput"] < 1
    assert "n04" in told["chronicle"]
    assert not training_left(below), "a rank outlived the demonstration"


@pytest.mark.slow
@pytest.mark.timeout(DEMO_LIMIT_S)
@pytest.mark.xdist_group("torch")
def test_a_demonstration_that_is_killed_outright_leaves_no_process_behind(below):
    argv = [sys.executable, "manage.py", "demo", "--exit", "--faults", "crash"]
    demo = subprocess.Popen(argv, cwd=ROOT, env=environ(below), stdout=subprocess.PIPE, text=True)
    for line in demo.stdout:
        if "launched on" in line:
            break
    wait_for(lambda: training_left(below), "ranks never started")
    demo.kill()
    demo.wait(10)
    wait_for(lambda: not training_left(below), "ranks outlived the demonstration")
    wait_for(lambda: not list(below.glob("middlewatch-demo-*")), "its folder was left")


@pytest.fixture
def below():
    """A folder for the demonstration's home; pytest's own have paths too long for a socket."""
    with tempfile.TemporaryDirectory(prefix="mw-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def environ(below):
    kept = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
    return {**kept, "TMPDIR": str(below)}


def training_left(below):
    """Return the pids of ranks whose environment names a folder below `below`."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"MIDDLEWATCH_CHECKPOINT_DIR={below}".encode() in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


def wait_for(true, why, limit_s=90):
    deadline = time.monotonic() + limit_s
    while not true():
        assert time.monotonic() < deadline, why
        time.sleep(0.1)
