"""Steps that agents and the training carry out: switches that ranks take or ignore, checks that nodes know or not."""

import pytest

from controlplane.runbooks import actions, registry, starting
from controlplane.runbooks.models import Execution
from controlplane.runs.models import Attempt
from tests.flows.conftest import training

pytestmark = pytest.mark.django_db

TEXT = """\
runbook: own
code: OPS-1
version: 1
title: Own
summary: Does it.
start: {}
steps:
"""


@pytest.fixture
def folder(tmp_path, settings, monkeypatch):
    settings.RUNBOOK_FOLDERS = [str(tmp_path)]
    monkeypatch.setattr(registry, "LOOK_EVERY_S", 0.0)
    monkeypatch.setattr(registry, "_shelf", None)
    return tmp_path


@pytest.fixture
def cluster():
    return training(steps=6, size=2, spares=1, supports=["save_now", "stop_now"])


def begin(cluster, folder, *steps):
    (folder / "own.yaml").write_text(TEXT + "".join(f"  - {step}\n" for step in steps))
    assert not registry.loaded().problems, registry.loaded().problems
    return starting.start("own", cluster.run, "ana", cluster.now)


def obey(cluster, node, args):
    if args["what"] == "kill":
        cluster.save("complete")
        for rank in cluster.ranks:
            cluster.ranks[rank].alive = False
            cluster.rank_says(rank, "rank.exited", exit_code=75, signal=None)
        cluster.say("head", "attempt.exited", attempt=args["attempt"], about_run=True, reason="failed", exit_code=75)
    return {"acknowledged": [0], "step": cluster.step}


def told(cluster):
    return "\n".join(cluster.told(f"incident:{cluster.incident().pk}"))


def test_a_save_switch_is_armed_on_the_node_of_rank_0_and_training_goes_on(cluster, folder):
    cluster.also["switch.arm"] = lambda node, args: obey(cluster, node, args)
    begin(cluster, folder, "{do: arm_switch, with: {what: save}}")
    cluster.until(lambda: cluster.execution().state == "succeeded", limit=10)
    command = cluster.sent("switch.arm").get()
    assert (command.node.name, command.args["what"]) == (cluster.newest().nodes[0], "save")
    assert "Rank 0 took the save switch after step" in told(cluster)
    assert cluster.newest().stopping_at is None


def acknowledge_alone(cluster):
    """Ranks answer before they save, and the save takes a while."""
    cluster.save_every = 1000
    cluster.also["switch.arm"] = lambda *_: {"acknowledged": [0], "step": cluster.step}


def test_a_planned_change_stops_nothing_before_the_checkpoint_that_it_asked_for_is_complete(cluster):
    acknowledge_alone(cluster)
    starting.start("planned-change", cluster.run, "ana", cluster.now, {"what": "a new driver"})
    cluster.tick(3)
    cluster.save("complete", step=3)  # an old one, written late
    cluster.save("saving")
    cluster.tick(10)
    assert (cluster.sent("switch.arm").get().state, cluster.stops) == ("succeeded", [])
    cluster.save("complete")
    cluster.until(lambda: cluster.stops, limit=10)
    assert cluster.execution().context["switch_step"] >= 6


def test_a_save_whose_attempt_ends_first_has_failed(cluster, folder):
    acknowledge_alone(cluster)
    execution = begin(cluster, folder, "{do: arm_switch, with: {what: save}}")
    cluster.tick(3)
    cluster.newest().run.attempts.update(state="exited")
    cluster.tick(6)
    execution.refresh_from_db()
    assert (execution.state, "ended before its checkpoint was complete" in execution.outcome) == ("failed", True)


def test_a_kill_switch_ends_the_attempt_as_ours_and_the_run_is_neither_broken_nor_complete(cluster, folder):
    cluster.also["switch.arm"] = lambda node, args: obey(cluster, node, args)
    begin(cluster, folder, "{do: arm_switch, with: {what: kill}}")
    cluster.tick(5)
    assert cluster.execution().state == "succeeded"
    assert (cluster.newest().state, cluster.newest().reason) == ("exited", "killed")
    assert cluster.fresh().state != "completed"
    assert cluster.run.incidents.exclude(klass="planned").count() == 0


def test_a_switch_that_no_rank_takes_fails_and_is_not_tried_again(cluster, folder):
    cluster.fail_kinds["switch.arm"] = "no rank took it before the deadline; it is disarmed"
    begin(cluster, folder, "{do: arm_switch, with: {what: save, wait: 10 s}}")
    cluster.tick(15)
    assert cluster.execution().state == "failed"
    assert cluster.sent("switch.arm").count() == 1
    assert "no rank took it before the deadline" in told(cluster)


def test_a_training_that_no_kill_switch_ended_is_watched_again_and_its_crash_is_answered(cluster, folder):
    cluster.fail_kinds["switch.arm"] = "no rank took it before the deadline; it is disarmed"
    begin(cluster, folder, "{do: arm_switch, with: {what: kill}}")
    cluster.tick(3)
    assert (cluster.execution().state, cluster.newest().stopping_at) == ("failed", None)
    cluster.kill_rank(1)
    cluster.until(lambda: len(cluster.launches) == 2, limit=30)


def test_taking_back_disarms_the_switch_of_the_attempt_that_it_was_armed_for(cluster, folder):
    cluster.mute_kinds.add("switch.arm")
    cluster.also["switch.disarm"] = lambda *_: {"disarmed": True}
    execution = begin(cluster, folder, "{do: arm_switch, with: {what: save}}")
    cluster.tick(2)
    Execution.objects.update(context={**cluster.execution().context, "new_attempt": 2})
    Attempt.objects.create(run=cluster.run, number=2, nodes=["n03"], started_at=cluster.now)
    actions.undo(execution, "ana", cluster.now)
    cluster.tick(2)
    command = cluster.sent("switch.disarm").get()
    assert (command.node.name, command.args) == ("n01", {"run": "demo", "attempt": 1, "what": "save"})
    assert cluster.execution().outcome == "ana took back what it did"


def test_a_switch_that_a_rank_has_taken_is_named_among_what_could_not_be_taken_back(cluster, folder):
    acknowledge_alone(cluster)
    cluster.also["switch.disarm"] = lambda *_: {"disarmed": False}
    execution = begin(cluster, folder, "{do: arm_switch, with: {what: save}}")
    cluster.tick(2)
    cluster.save("complete")
    cluster.until(lambda: cluster.execution().state == "succeeded", limit=10)
    actions.undo(execution, "ana", cluster.now)
    cluster.until(lambda: cluster.execution().state == "undone", limit=10)
    assert cluster.execution().outcome == "ana took back what it did, except for: arm switch"


def test_a_workload_that_cannot_obey_is_not_asked(cluster, folder):
    cluster.run.attempts.update(supports=[])
    begin(cluster, folder, "{do: arm_switch, with: {what: kill}}")
    cluster.tick(3)
    assert cluster.execution().state == "failed"
    assert "training supports stop_now" in told(cluster)
    assert not cluster.sent("switch.arm").exists()
    assert cluster.newest().stopping_at is None


def test_a_check_is_told_by_node_and_what_could_not_be_checked_is_unknown(cluster, folder):
    nodes = cluster.newest().nodes
    cluster.also["check.run"] = lambda node, _: {"outcome": "pass" if node == nodes[0] else "could_not_check"}
    begin(cluster, folder, "{do: run_check, with: {check: memory}}")
    cluster.tick(3)
    assert cluster.execution().state == "succeeded"
    assert f"Check memory: passed on {nodes[0]}, failed on none, unknown on {nodes[1]}." in told(cluster)


def test_a_check_that_must_pass_stops_the_runbook(cluster, folder):
    cluster.also["check.run"] = lambda *_: {"outcome": "fail"}
    begin(cluster, folder, "{do: run_check, optional: false, with: {check: memory, must_pass: true}}")
    cluster.tick(3)
    assert cluster.execution().state == "failed"
    assert "The check memory was not passed: failed on" in told(cluster)


@pytest.mark.parametrize(
    ("step", "why"),
    [
        ("{do: arm_switch}", "what"), ("{do: arm_switch, with: {what: explode}}", "what"),
        ("{do: arm_switch, with: {what: save, wait: 1 h}}", "wait"), ("{do: run_check}", "check"),
        ("{do: run_check, with: {check: x, command: rm}}", "command"),
    ],
)  # fmt: skip
def test_a_file_that_asks_for_something_else_is_refused(folder, step, why):
    (folder / "own.yaml").write_text(f"{TEXT}  - {step}\n")
    ((problem,),) = registry.loaded().problems.values()
    assert why in str(problem)
