"""How far single runbooks may go, who said so, and what autopilot would be allowed to do."""

import pytest

from controlplane.domain.errors import Invalid, NotFound, Refused
from controlplane.runbooks import actions, modes, registry
from controlplane.runbooks.models import RunbookMode
from controlplane.runs import actions as runs
from tests.flows.conftest import training

pytestmark = pytest.mark.django_db


@pytest.fixture
def cluster():
    return training(steps=6, size=2, spares=1)


def restart():
    return registry.runbook("restart-after-crash")


def test_a_runbook_held_below_the_run_asks_first_and_watches_last(cluster):
    modes.set_mode("restart-after-crash", cluster.run, "watch", "ana", cluster.now)
    cluster.kill_rank(1)
    cluster.tick(5)
    assert (cluster.execution().held_by, cluster.stops) == ("watch", [])
    with pytest.raises(Refused, match="set to watch"):
        actions.approve(cluster.execution(), "ben", cluster.now)
    modes.set_mode("restart-after-crash", cluster.run, "ask", "ana", cluster.now)
    cluster.tick(3)
    assert cluster.stops == []
    modes.set_mode("restart-after-crash", cluster.run, "file", "ana", cluster.now)
    cluster.until(lambda: len(cluster.launches) == 2)


def test_a_run_set_to_ask_in_the_middle_asks_before_the_next_act(cluster):
    cluster.mute_kinds.add("attempt.stop")
    cluster.kill_rank(1)
    cluster.until(lambda: cluster.sent("attempt.stop").exists())
    runs.set_mode(cluster.run, "ask", "ana", cluster.now)
    cluster.mute_kinds.clear()
    cluster.until(lambda: cluster.execution().state == "proposed", limit=90)
    assert (len(cluster.launches), cluster.execution().held_by) == (1, "ask")
    runs.set_mode(cluster.run, "autopilot", "ana", cluster.now)
    cluster.until(lambda: len(cluster.launches) == 2)
    assert cluster.run.executions.count() == 1


def test_the_word_for_all_runs_and_for_one_count_together_and_each_change_is_told(cluster):
    modes.set_mode("restart-after-crash", None, "ask", "ana", cluster.now)
    assert modes.effective(restart(), cluster.run) == "ask"
    modes.set_mode("restart-after-crash", cluster.run, "autopilot", "ben", cluster.now)
    assert modes.effective(restart(), cluster.run) == "ask"
    modes.set_mode("restart-after-crash", cluster.run, "autopilot", "ben", cluster.now)
    assert RunbookMode.objects.count() == 2
    assert [line for line in cluster.told("fleet") if "set “Restart after a crash” to ask for all runs" in line]
    assert sum("ben set" in line for line in cluster.told("run:demo")) == 1


def test_a_mode_or_runbook_that_does_not_exist_is_refused_by_name(cluster):
    with pytest.raises(Invalid, match="mode"):
        modes.set_mode("restart-after-crash", None, "yolo", "ana", cluster.now)
    with pytest.raises(NotFound):
        modes.set_mode("no-such", None, "ask", "ana", cluster.now)


def test_autopilot_says_beforehand_what_it_will_be_allowed_to_do(cluster):
    modes.set_mode("replace-node", cluster.run, "ask", "ana", cluster.now)
    told = modes.preview(cluster.run, cluster.now)
    assert any(line.startswith("R-01 Restart after a crash: end what is left of the attempt") for line in told)
    assert "R-05 Replace the node: stays on ask, so a person decides." in told
    assert "Restarts: 4 of 4 restarts left." in told
