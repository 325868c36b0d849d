"""Announced silence (methods 1)."""

import pytest

from controlplane.domain.findings import Stage as Sure
from tests.domain.stage import T0, Stage


def training(**words):
    stage = Stage(**words)
    stage.launch()
    stage.train(1, 30, 2.0)
    return stage


def notice(stage, *names, begins, ends):
    data = {"what": "maintenance", "nodes": list(names), "begins_at_ms": begins * 1000, "ends_at_ms": ends * 1000}
    stage.send("capacity.notice", run=None, **data)


def test_a_run_whose_nodes_are_in_maintenance_is_not_judged_and_its_clock_begins_anew_when_they_are_back():
    stage = training()
    stage.beat()
    notice(stage, *stage.names, begins=stage.now, ends=stage.now + 600)
    stage.mute |= set(stage.names)
    stage.wait(800)
    stage.mute.clear()
    stage.wait(101)
    assert stage.log == []
    stage.wait(50)
    assert stage.log == []
    stage.wait(10)
    assert stage.classes() == {"hang"}


def test_nodes_that_stay_away_keep_the_run_unjudged_because_the_fleet_tells_it_once():
    stage = training()
    notice(stage, *stage.names, begins=stage.now, ends=stage.now + 600)
    stage.mute |= set(stage.names)
    stage.wait(2000)
    assert stage.log == []


def test_before_the_window_begins_a_node_is_judged_like_any_other():
    stage = training()
    notice(stage, "n2", begins=stage.now + 500, ends=stage.now + 600)
    stage.beat()
    stage.mute.add("n2")
    stage.wait(100)
    assert stage.first("node_lost", Sure.CONFIRMED).entity == "node:n2"


def test_a_later_notice_ends_the_window_early():
    stage = training()
    notice(stage, begins=stage.now, ends=stage.now + 6000)
    stage.wait(100)
    notice(stage, begins=T0, ends=stage.now)
    stage.wait(299)
    assert stage.log == []
    stage.wait(70)
    assert stage.classes() == {"hang"}


@pytest.mark.parametrize(
    "data", [{}, {"what": "maintenance"}, {"what": "maintenance", "ends_at_ms": "soon", "nodes": 5}]
)
def test_a_notice_that_says_nothing_changes_nothing(data):
    stage = training()
    stage.send("capacity.notice", run=None, **data)
    stage.wait(120)
    assert "hang" in stage.classes()


def test_the_end_of_the_grace_is_known_in_advance():
    stage = training()
    ends = stage.now + 600
    notice(stage, *stage.names, begins=stage.now, ends=ends)
    stage.train(31, 32, 2.0)
    dues, now = set(), stage.now
    while (due := stage.machine.due(now)) is not None:
        dues.add(due)
        now = due
    assert ends + 300 in dues
