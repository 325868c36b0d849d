"""Whether an open incident needs a person agrees with who was called for it."""

import pytest

from controlplane.incidents.models import Incident
from controlplane.runbooks.models import Execution
from controlplane.runs.models import Run
from controlplane.web.present import needs
from tests.web.present.test_run_and_fleet import NOW

PAGED = [{"do": "page"}]


def need(decision=None, execution=None, *, asked=False, confirmed=True, **of_run):
    incident = Incident(state="open", confirmed_at=NOW if confirmed else None, decision=decision or {})
    begun = Execution(**execution) if execution else None
    return needs.of(incident, Run(name="llama", **of_run), begun, asked=asked)


@pytest.mark.parametrize(
    ("execution", "decision", "expected"),
    [
        ({"state": "running"}, {"actions": PAGED}, "recovering"),
        ({"state": "waiting", "held_by": "partition"}, {}, "recovering"),
        ({"state": "waiting", "held_by": "launcher"}, {}, "person"),
        ({"state": "proposed"}, {"held_by": "ask"}, "person"),
        ({"state": "proposed"}, {"held_by": "backoff"}, "recovering"),
        ({"state": "paused"}, {}, "person"),
        ({"state": "failed"}, {}, "person"),
        ({"state": "succeeded"}, {"actions": []}, "watched"),
    ],
)
def test_a_runbook_needs_a_person_when_it_cannot_go_on_alone(execution, decision, expected):
    assert need(decision, execution) == expected


def test_a_runbook_that_asks_something_needs_a_person():
    assert need({}, {"state": "waiting"}, asked=True) == "person"


@pytest.mark.parametrize(
    ("decision", "expected"),
    [
        ({"actions": PAGED}, "person"),
        ({"actions": [{"do": "check", "proposed": True}]}, "person"),
        ({"actions": [{"do": "hold"}], "held_by": "partition"}, "watched"),
        ({"actions": []}, "watched"),
        ({}, "recovering"),
    ],
)
def test_without_a_runbook_it_counts_whether_people_were_told(decision, expected):
    assert need(decision) == expected


def test_a_suspicion_needs_nobody_even_under_a_hold():
    assert need(held=True, confirmed=False) == "watched"
    assert need(held=True) == "person"


def test_what_is_over_needs_nobody():
    over = Incident(state="resolved", decision={"actions": PAGED})
    assert needs.of(over, None, Execution(state="failed")) == "nothing"
