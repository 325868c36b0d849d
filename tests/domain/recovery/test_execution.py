import pytest

from controlplane.domain.errors import Conflict
from controlplane.domain.recovery import execution
from controlplane.domain.recovery.execution import After, after_failure
from controlplane.domain.recovery.runbook import StepSpec, fill
from tests.domain.recovery.shelf import BUILT_IN, CATALOG

RUNBOOK = CATALOG.runbooks["restart-after-crash"]


def spec(**words):
    start = {"name": "x", "action": BUILT_IN["stop"], "limit_s": 10, "said": BUILT_IN["stop"].words}
    return StepSpec(**{**start, **words})


def test_the_restart_collects_before_it_stops_and_stops_before_it_launches():
    assert [step.name for step in RUNBOOK.steps] == [
        "collect",
        "confirm",
        "stop",
        "stop_ranks",
        "fence_nodes",
        "choose_checkpoint",
        "choose_nodes",
        "launch",
        "await_progress",
        "close",
    ]
    assert RUNBOOK.index("launch") == 7
    with pytest.raises(KeyError):
        RUNBOOK.index("pray")


def test_only_the_collection_and_the_rungs_of_the_teardown_before_its_last_may_be_skipped():
    assert [step.name for step in RUNBOOK.steps if step.optional] == ["collect", "stop", "stop_ranks"]


@pytest.mark.parametrize("step", RUNBOOK.steps, ids=lambda step: step.name)
def test_every_step_has_a_limit_and_words_for_each_outcome(step):
    assert step.limit_s > 0
    for phase in ("next", "doing", "done", "failed"):
        assert step.words(phase, {})
    assert step.waits_for


def test_a_sentence_is_filled_and_a_missing_fact_shows_as_a_question_mark():
    assert fill("Launched attempt {attempt} on {nodes}.", {"nodes": ["n0", "n1"]}) == "Launched attempt ? on n0, n1."


@pytest.mark.parametrize("template", ["{x.__class__}", "{x[0]}", "{x:q}", "{}", "{0}"])
def test_a_template_reaches_into_nothing(template):
    assert "class" not in fill(template, {"x": "secret"}).replace("{x.__class__}", "")


def test_a_failed_step_is_tried_again_as_often_as_it_may_with_growing_pauses():
    verdicts = [after_failure(spec(retries=2), try_number=number, why="w", now=100.0) for number in (1, 2, 3)]
    assert [(verdict.after, verdict.at) for verdict in verdicts] == [
        (After.RETRY, 101.0),
        (After.RETRY, 102.0),
        (After.GIVE_UP, 100.0),
    ]


def test_a_step_that_cannot_be_helped_is_not_tried_again():
    assert after_failure(spec(retries=2), try_number=1, why="w", now=0.0, retry=False).after is After.GIVE_UP


def test_an_optional_step_is_skipped():
    assert after_failure(spec(optional=True), try_number=1, why="w", now=0.0).after is After.SKIP


def test_final_states_are_left_by_no_move_but_an_undo():
    assert {"succeeded", "failed", "stopped", "rejected", "undone"} == execution.FINAL
    assert {state for state in execution.FINAL if execution.ALLOWED[state]} == execution.FINAL & execution.UNDOABLE
    for state in execution.FINAL:
        with pytest.raises(Conflict):
            execution.check(state, "running")
    execution.check("proposed", "running")
    with pytest.raises(Conflict):
        execution.check_step("done", "waiting")


def test_every_state_that_a_move_leads_to_is_in_the_table():
    for table in (execution.ALLOWED, execution.STEP_ALLOWED):
        assert all(later in table for states in table.values() for later in states)
