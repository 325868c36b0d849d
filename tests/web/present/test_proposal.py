"""A runbook that waits says what it waits for, and what happens when nobody answers."""

import pytest

from controlplane.incidents.models import Incident
from controlplane.runs.models import Run
from controlplane.web.present.proposal import waiting


def said(by, why, **of_run):
    return waiting(Incident(decision={"held_by": by, "why": why}), Run(name="llama", **of_run))


@pytest.mark.parametrize("by", ["ask", "repeat", "share", None])
def test_what_needs_a_person_does_nothing_without_one(by):
    words = said(by, "the run asks before it acts")
    assert words.doing == "nothing until somebody approves"
    assert words.unanswered.startswith("without an answer nothing is done")


@pytest.mark.parametrize(
    ("by", "when"),
    [
        ("bucket", "once another restart is earned"),
        ("partition", "once the fleet can be seen again"),
        ("backoff", "once the pause is over"),
    ],
)
def test_what_starts_by_itself_does_not_claim_to_wait_for_an_answer(by, when):
    words = said(by, "all restarts are spent; the next one is earned in 12 min")
    assert words.doing == "nothing yet: all restarts are spent; the next one is earned in 12 min"
    assert words.next == f"start by itself {when}"
    assert words.unanswered == f"without an answer it will start by itself {when}"


@pytest.mark.parametrize("by", ["watch", "kill switch"])
def test_what_no_approval_opens_says_so(by):
    assert said(by, "automation is switched off").unanswered.startswith("nothing is begun")


def test_a_hold_is_told_before_the_decision_is_taken_anew():
    assert said("ask", "the run asks before it acts", held=True, held_by="bo").doing == "nothing: bo holds the run"
