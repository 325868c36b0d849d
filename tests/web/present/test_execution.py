"""What the machine does now, and what it does next."""

from datetime import UTC, datetime, timedelta

import pytest

from controlplane.runbooks.models import Execution, StepRun
from controlplane.web.present.execution import progress
from tests.domain.recovery.shelf import CATALOG

RUNBOOK = CATALOG.runbooks["restart-after-crash"]

NOW = datetime(2026, 3, 1, 3, 13, tzinfo=UTC)


def execution(at, **more):
    facts = {"pk": 5, "attempt": 7, "state": "waiting", "step_index": RUNBOOK.index(at), "context": {}}
    return Execution(**{**facts, **more})


def step(name, state="waiting", **more):
    facts = {
        "index": RUNBOOK.index(name),
        "name": name,
        "state": state,
        "try_number": 1,
        "started_at": NOW - timedelta(seconds=8),
    }
    return StepRun(**{**facts, **more})


def test_it_says_the_step_under_way_and_its_place():
    said = progress(execution("stop"), [step("stop")], RUNBOOK, NOW)
    place = f"step {RUNBOOK.index('stop') + 1} of {len(RUNBOOK.steps)}"
    assert (said.doing, said.place) == ("stopping what is left of attempt 7", place)
    assert said.next == RUNBOOK.steps[RUNBOOK.index("choose_checkpoint")].words("next", {})


def test_it_knows_that_only_the_progress_of_the_next_attempt_is_waited_for():
    assert progress(execution("await_progress"), [], RUNBOOK, NOW).launched
    assert progress(execution("await_progress", state="paused"), [], RUNBOOK, NOW).launched
    assert not progress(execution("launch"), [], RUNBOOK, NOW).launched
    assert not progress(execution("await_progress", state="failed"), [], RUNBOOK, NOW).launched


def test_a_step_whose_facts_are_known_names_them():
    said = progress(execution("choose_nodes", context={"restore_step": 81_400, "new_attempt": 8}), [], RUNBOOK, NOW)
    assert said.next == "restart from step 81\u202f400"


def test_a_step_whose_facts_are_not_known_yet_shows_no_question_mark():
    said = progress(execution("choose_nodes"), [], RUNBOOK, NOW)
    assert said.next == "restart from the restore point"
    assert not any("?" in line.sentence for line in said.lines)


def test_the_countdown_runs_to_the_limit_of_the_open_step():
    limit = NOW + timedelta(seconds=45)
    assert progress(execution("stop"), [step("stop", deadline=limit)], RUNBOOK, NOW).until == limit


def test_a_limit_that_has_passed_is_not_counted_down():
    late = step("stop", deadline=NOW - timedelta(seconds=1))
    assert progress(execution("stop"), [late], RUNBOOK, NOW).until is None


def test_the_last_try_of_a_step_is_the_one_shown():
    first, second = step("stop", "failed", finished_at=NOW), step("stop", try_number=2)
    line = progress(execution("stop"), [first, second], RUNBOOK, NOW).lines[2]
    assert (line.tries, line.badge.word, line.current) == (2, "Waiting", True)


def test_the_step_at_hand_is_shown_as_running_before_its_first_try_is_written_down():
    lines = progress(execution("stop"), [], RUNBOOK, NOW).lines
    assert [line.name for line in lines if line.current] == ["stop"]
    assert lines[2].sentence == "stopping what is left of attempt 7"


@pytest.mark.parametrize(
    ("facts", "doing"),
    [
        ({"state": "proposed"}, "nothing until somebody approves"),
        ({"state": "proposed", "held_by": "backoff"}, "holding back before the next restart"),
        ({"state": "paused"}, "paused before going on: stop what is left of attempt 7"),
        ({"state": "waiting", "held_by": "operator"}, "standing still: an operator holds the run"),
        ({"state": "succeeded", "outcome": "the run trains again"}, "the run trains again"),
        ({"state": "rejected"}, "rejected"),
    ],
)
def test_each_state_of_an_execution_has_its_words(facts, doing):
    assert progress(execution("stop", **facts), [], RUNBOOK, NOW).doing == doing


def test_after_the_last_step_nothing_more_follows():
    assert progress(execution("close"), [], RUNBOOK, NOW).next == "nothing more; the incident closes"


def test_an_ended_execution_promises_nothing():
    said = progress(execution("close", state="succeeded"), [], RUNBOOK, NOW)
    assert (said.next, said.place, said.until, said.final) == ("", "", None, True)
