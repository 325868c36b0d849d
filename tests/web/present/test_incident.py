"""The state card says how things stand before it says what was detected."""

from datetime import UTC, datetime, timedelta

import pytest

from controlplane.incidents.models import Incident
from controlplane.runs.models import Run
from controlplane.web.present import cost
from controlplane.web.present.badges import EXECUTION
from controlplane.web.present.execution import Progress
from controlplane.web.present.incident import card

NOW = datetime(2026, 3, 1, 3, 13, tzinfo=UTC)


def run(**more):
    return Run(**{"pk": 1, "name": "llama", "state": "recovering", "nodes_wanted": 256, "gpus_per_node": 8, **more})


def incident(**more):
    facts = {
        "pk": 42,
        "run_id": 1,
        "klass": "hang",
        "title": "Rank 412 hung on n-0417",
        "severity": "critical",
        "state": "open",
        "began_at": NOW - timedelta(minutes=11),
        "opened_at": NOW - timedelta(minutes=10),
        "confirmed_at": NOW - timedelta(minutes=9),
    }
    return Incident(**{**facts, **more})


@pytest.mark.parametrize(
    ("facts", "of_run", "sentence"),
    [
        ({}, {}, "Run llama is stopped"),
        ({"confirmed_at": None}, {}, "Run llama may have stopped"),
        ({"klass": "telemetry_lost"}, {}, "Run llama may be running, but cannot be seen"),
        ({"klass": "fail_slow"}, {}, "Run llama goes on, but not as it should"),
        (
            {"state": "mitigated", "mitigated_at": NOW - timedelta(seconds=30)},
            {"state": "running"},
            "Run llama recovered after 10 min",
        ),
        (
            {"state": "mitigated", "mitigated_at": NOW - timedelta(seconds=30)},
            {"state": "recovering"},
            "Run llama recovered after 10 min",
        ),
        (
            {"state": "resolved", "mitigated_at": NOW, "losses": {"seconds": 640.0}},
            {"state": "recovering"},
            "Run llama recovered after 10 min",
        ),
        (
            {"klass": "fail_slow", "state": "resolved", "mitigated_at": NOW, "losses": {"seconds": 2.6}},
            {"state": "running"},
            "Run llama recovered after 11 min",
        ),
        ({"state": "resolved"}, {"state": "running"}, "Run llama is no longer in this incident"),
        ({"state": "resolved"}, {"state": "completed"}, "Run llama has completed"),
    ],
)
def test_the_headline_says_how_the_run_stands(facts, of_run, sentence):
    assert card(incident(**facts), run(**of_run), None, None).headline == sentence


def test_an_incident_of_the_fleet_names_its_class():
    assert card(incident(run_id=None, klass="blind"), None, None, None).headline == "No sight of the run"


def test_a_class_of_a_later_version_falls_back_to_the_title():
    assert card(incident(run_id=None, klass="meteor"), None, None, None).headline == "Rank 412 hung on n-0417"


def test_it_says_whether_somebody_has_seen_it():
    assert card(incident(), run(), None, None).acknowledged == "not acknowledged"
    assert card(incident(state="resolved"), run(), None, None).acknowledged == ""
    seen = incident(acknowledged_at=NOW, acknowledged_by="ana")
    assert card(seen, run(), None, None).acknowledged == "acknowledged by ana"


def test_without_a_runbook_it_says_why_nothing_is_done():
    held = incident(decision={"why": "bo holds the run", "held_by": "operator"})
    assert card(held, run(), None, None).doing == "Nothing: bo holds the run"
    assert card(incident(confirmed_at=None), run(), None, None).doing == "Watching; a suspicion alone changes nothing"


def test_what_is_told_of_the_fleet_and_has_no_runbook_is_not_still_being_decided():
    noted = incident(run_id=None, klass="telemetry_lost", decision={"runbook": None, "actions": [{"do": "notify"}]})
    assert card(noted, None, None, None).doing == "Nothing more by itself: it is left to people"
    assert card(incident(run_id=None, klass="telemetry_lost"), None, None, None).doing == "Deciding what to do"


@pytest.mark.parametrize(("state", "doing"), [("mitigated", "Watching whether it lasts"), ("resolved", "")])
def test_an_incident_that_is_over_promises_nothing(state, doing):
    said = card(incident(state=state, mitigated_at=NOW), run(), None, None)
    assert (said.doing, said.next) == (doing, "")


def test_a_runbook_that_failed_leaves_the_rest_to_a_person():
    failed = Progress(
        badge=EXECUTION["failed"], doing="attempt 8 did not start", place="", next="", until=None, lines=(), final=True
    )
    said = card(incident(), run(), None, failed)
    assert (said.doing, said.next) == ("Attempt 8 did not start", "Nothing by itself: a person must decide")


def test_a_run_whose_next_attempt_is_there_is_not_called_stopped():
    going = Progress(
        badge=EXECUTION["waiting"], doing="waiting for a step beyond 171", place="step 9 of 10", next="close",
        until=None, lines=(), final=False, launched=True,
    )  # fmt: skip
    assert card(incident(), run(), None, going).headline == "Run llama is starting again"


def test_a_proposal_for_a_held_run_says_that_the_hold_comes_first():
    proposed = Progress(
        badge=EXECUTION["proposed"], doing="nothing until somebody approves", place="", next="collect stacks",
        until=None, lines=(), final=False,
    )  # fmt: skip
    said = card(incident(), run(held=True, held_by="bo"), None, proposed)
    assert (said.doing, said.next) == ("Nothing: bo holds the run", "Nothing is begun before the hold is ended")


def test_the_cost_of_an_open_incident_ticks_from_its_first_bad_moment():
    price = cost.of_incident(incident(), 2048, NOW)
    assert price.ticking
    assert price.words == "2\u202f048 GPUs idle · 11 min · 375\u00a0GPU\u2011h"


@pytest.mark.parametrize("klass", ["fail_slow", "loss_anomaly", "telemetry_lost"])
def test_no_gpu_is_called_idle_while_the_run_goes_on(klass):
    assert cost.of_incident(incident(klass=klass), 8, NOW) is None
    assert cost.of_incident(incident(klass=klass, state="resolved", resolved_at=NOW), 8, NOW) is None
    restarted = incident(klass=klass, state="resolved", resolved_at=NOW, losses={"seconds": 90.0})
    assert cost.of_incident(restarted, 8, NOW).words.startswith("8 GPUs idled · 90 s")


def test_the_cost_of_a_mitigated_incident_is_what_was_measured():
    done = incident(state="mitigated", mitigated_at=NOW, losses={"steps": 70, "seconds": 90.0})
    price = cost.of_incident(done, 8, NOW + timedelta(hours=1))
    assert not price.ticking
    assert price.words == "8 GPUs idled · 90 s · 0.200\u00a0GPU\u2011h · 70 steps lost"


def test_an_incident_without_a_run_costs_no_run():
    assert cost.of_incident(incident(run_id=None), 8, NOW) is None
