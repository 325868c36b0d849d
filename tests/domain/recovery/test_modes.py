import pytest

from controlplane.domain.recovery.modes import allowed, least
from tests.domain.recovery.shelf import CATALOG

RUNBOOK = CATALOG.runbooks["restart-after-crash"]


def test_the_least_of_run_file_and_person_decides():
    assert allowed("autopilot", RUNBOOK).mode == "autopilot"
    assert allowed("autopilot", RUNBOOK, "ask").mode == "ask"
    assert allowed("watch", RUNBOOK, "ask").mode == "watch"
    assert allowed("ask", RUNBOOK, "autopilot").mode == "ask"


@pytest.mark.parametrize(
    ("run", "person", "why"),
    [
        ("watch", "", "the run is only watched"),
        ("ask", "ask", "the run asks before it acts"),
        ("autopilot", "watch", "a person set the runbook to watch"),
        ("autopilot", "", ""),
    ],
)
def test_it_says_what_keeps_automation_from_more(run, person, why):
    assert allowed(run, RUNBOOK, person).why == why


def test_nothing_said_forbids_nothing():
    assert least(["", ""]) == "autopilot"
