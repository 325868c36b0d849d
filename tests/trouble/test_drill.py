"""A drill on a real run: a rank is killed through its node's agent, and the recovery is measured."""

import json
import subprocess

import pytest
from middlewatch_agent.config import DEFAULT_COMMANDS

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("world")]


def test_a_drill_kills_a_rank_measures_the_recovery_wakes_nobody_and_counts_as_no_interruption(yard, story, tmp_path):
    report = tmp_path / "report.json"
    told = yard.plane.manage("drill", "--run", story.run, "--yes", "--by", "ana", "--report", str(report))
    (row,) = json.loads(report.read_text())["faults"]
    assert (row["kind"], row["class"], row["unattended"]) == ("crash", "crash", True)
    assert 0 < row["detected_s"] < row["resumed_s"] < 25
    assert 0 <= row["steps_lost"] < 40
    assert "Drill: crash of rank 2 on n03." in told
    assert "Told of it: nobody." in told
    drill, hurt = sorted(story.incidents(), key=lambda one: one["class"] != "planned")
    assert (drill["class"], hurt["class"]) == ("planned", "crash")
    assert "This is a drill that ana started" in story.told()
    made = story.client.get(f"/runs/{story.run}/goodput")["interruptions"]
    assert made == 0
    with pytest.raises(subprocess.CalledProcessError):
        yard.plane.manage("drill", "--run", "nobody", "--yes")


def test_a_drill_freezes_a_rank_where_its_node_allows_it_and_follows_the_hang_to_its_end(yard, story, tmp_path):
    allow(yard, "n03", "rank.freeze")
    report = tmp_path / "report.json"
    frozen = story.rank(2)
    told = yard.plane.manage("drill", "--run", story.run, "--fault", "hang", "--yes", "--report", str(report))
    written = json.loads(report.read_text())
    (row,) = written["faults"]
    assert (row["kind"], row["class"], row["unattended"]) == ("hang", "hang", True)
    assert 0 < row["decided_s"] <= row["detected_s"] < row["resumed_s"], "it is confirmed behind the first suspicion"
    assert 0 <= row["steps_lost"] < 40
    assert (written["told"], "Told of it: nobody." in told) == ([], True)
    assert "Drill: hang of rank 2 on n03." in told
    assert frozen not in [pid for _, pid in story.ranks()]
    assert story.commands("collect").count(1) == 3, "stacks were asked of every node before the kill"
    assert story.client.get(f"/runs/{story.run}/goodput")["interruptions"] == 0


def allow(yard, node, kind):
    """Name one more command in a node's own file, which its agent reads when it starts."""
    with (yard.cluster.state(node) / "agent.toml").open("a", encoding="utf-8") as settings:
        settings.write(f"commands = {json.dumps([*DEFAULT_COMMANDS, kind])}\n")
    yard.kill_agent(node)
    yard.restart_agent(node)
