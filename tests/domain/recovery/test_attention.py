import pytest

from controlplane.domain.findings import Evidence, Stage
from controlplane.domain.recovery.acts import Do
from controlplane.domain.recovery.attention import Case, attention, words
from tests.domain.recovery.shelf import choose
from tests.domain.recovery.test_choice import EMPTY, NOW, POLICY, facts
from tests.domain.recovery.test_responses import SLOW, XID, found


def told(diagnosis, *, held_nodes=(), quiet=False, run="demo", **world):
    decision = choose(diagnosis, facts(**world), POLICY)
    case = Case(
        diagnosis=diagnosis, decision=decision, run=run, attempt=1, quiet=quiet, held_nodes=frozenset(held_nodes)
    )
    return [(act.do, act.node, act.proposed) for act in attention(case)]


PAGE, NOTE = (Do.PAGE, None, False), (Do.NOTIFY, None, False)


def test_what_automation_mends_by_itself_wakes_nobody():
    assert told(found("crash")) == []
    assert told(found("gpu_fault", evidence=(XID,))) == []


def test_a_suspicion_tells_nobody_anything():
    assert told(found("hang", stage=Stage.SUSPECT), mode="ask") == []
    assert told(found("loss_anomaly", stage=Stage.SUSPECT, severity="warning")) == []


def test_a_restart_that_a_person_must_allow_is_proposed_and_called_for():
    assert told(found("crash"), mode="ask") == [(Do.RESTART, None, True), PAGE]
    assert told(found("crash"), bucket=EMPTY) == [(Do.RESTART, None, True), PAGE]
    assert told(found("crash_loop"), exited=True) == [(Do.RESTART, None, True), PAGE]


def test_a_pause_before_the_next_restart_and_a_fleet_that_holds_call_nobody_for_the_run():
    assert told(found("crash"), fruitless=1, last_restart_at=NOW) == []
    assert told(found("crash"), partition="8 of 20 nodes fell silent together") == []


def test_a_group_that_makes_the_fleet_hold_is_called_out_and_nothing_is_proposed():
    assert told(found("correlated_loss", hold=True), run=None) == [(Do.HOLD, None, False), PAGE]


def test_storage_that_does_not_answer_holds_the_run_and_calls_a_person():
    assert told(found("storage_stall"), exited=True, storage="the storage does not answer") == [
        (Do.HOLD, None, False), PAGE,
    ]  # fmt: skip


def test_what_no_runbook_answers_is_told_as_loudly_as_it_is_severe():
    assert told(found("checkpoint_overdue")) == [PAGE]
    assert told(found("checkpoint_overdue", severity="warning")) == [NOTE]
    assert told(found("telemetry_lost", severity="warning")) == [NOTE]
    assert told(found("spares_low", severity="info")) == []
    assert told(found("environment_drift", severity="warning")) == []


def test_a_silenced_incident_leaves_a_note_and_wakes_nobody():
    assert told(found("checkpoint_overdue"), quiet=True) == [NOTE]


def test_a_slow_node_is_proposed_for_draining_at_once_and_an_unknown_one_for_a_benchmark():
    assert told(found("fail_slow", severity="warning", evidence=(SLOW,))) == [(Do.DRAIN, "n2", True)]
    assert told(found("fail_slow", severity="warning")) == [(Do.CHECK, None, True)]
    assert told(found("fail_slow", severity="info")) == []


def test_while_the_ranks_own_times_are_still_coming_in_a_slow_run_calls_nobody():
    assert told(found("fail_slow", drop=0.2, locating=True)) == []
    assert told(found("fail_slow", drop=0.2, locating=False)) == [(Do.CHECK, None, True), PAGE]


def test_a_condemned_node_that_an_operator_holds_is_told_and_only_proposed():
    diagnosis = found("gpu_fault", evidence=(XID,))
    assert told(diagnosis, held_nodes=["n2"]) == [(Do.QUARANTINE, "n2", True), PAGE]


def test_a_quarantined_node_in_an_allocation_is_called_out_and_its_replacement_proposed():
    line = Evidence(at=NOW, entity="node:n5", weight=5.0, text="n5 is quarantined and attempt 2 runs on it")
    diagnosis = found("scheduler", evidence=(line,), entity="node:n5")
    assert told(diagnosis) == [(Do.REPLACE, "n5", True), PAGE]


@pytest.mark.parametrize("state", ["completed", "stopped"])
def test_a_run_that_is_over_needs_no_answer_but_its_machines_may(state):
    assert told(found("crash"), state=state) == []
    assert told(found("capacity", severity="warning"), state=state) == [NOTE]


def test_each_act_is_one_sentence_and_a_proposed_restart_is_told_by_its_proposal():
    case = Case(diagnosis=found("fail_slow", severity="warning", evidence=(SLOW,)),
                decision=choose(found("fail_slow", severity="warning", evidence=(SLOW,)), facts(), POLICY),
                run="demo", attempt=1)  # fmt: skip
    assert words(attention(case)[0]) == "Proposed to drain node n2 at the next complete checkpoint: trouble fail_slow"
