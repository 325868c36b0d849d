"""A drill on a real run: a rank is killed through its node's agent, and the recovery is measured."""

import json
import subprocess

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("world")]


def test_a_drill_kills_a_rank_measures_the_recovery_wakes_nobody_and_counts_as_no_interruption(yard, story, tmp_path):
    report = tmp_path / "report.json"
    told = yard.plane.manage("drill", "--run", story.run, "--yes", "--by", "ana", "--report", str(report))
    (row,) = json.loads(report.read_text())["faults"]
    assert (row["kind"], row["class"], row["unattended"]) == ("crash", "crash", True)
    assert 0 < row["detected_s"] < row["resumed_s"] < 25
    assert 0 <= row["steps_lost"] < 40
    assert "Drill: crash of rank 2 on n03." in told
    drill, hurt = sorted(story.incidents(), key=lambda one: one["class"] != "planned")
    assert (drill["class"], hurt["class"]) == ("planned", "crash")
    assert "This is a drill that ana started" in story.told()
    made = story.client.get(f"/runs/{story.run}/goodput")["interruptions"]
    assert made == 0
    with pytest.raises(subprocess.CalledProcessError):
        yard.plane.manage("drill", "--run", "nobody", "--yes")
