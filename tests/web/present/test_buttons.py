"""Which acts are offered, and what is said of those that are not possible."""

import pytest

from controlplane.incidents.models import Incident
from controlplane.runbooks.models import Execution
from controlplane.runs.models import Run
from controlplane.web.present import buttons


def everything(_act):
    return True


def proposal(**of_run):
    return Execution(pk=5, state="proposed", run=Run(name="llama", **{"mode": "ask", **of_run}))


def test_where_a_proposal_waits_the_first_thing_to_press_leads_to_it():
    acknowledge, decide = buttons.thumb(Incident(pk=1, state="open"), proposal(), everything)
    assert (decide.label, decide.url, decide.link, decide.look) == ("Decide", "#approval", True, "first")
    assert acknowledge.look == ""


@pytest.mark.parametrize(
    ("of_run", "why"),
    [({}, ""), ({"held": True, "held_by": "bo"}, "bo holds the run"), ({"mode": "watch"}, "the run is only watched")],
)
def test_a_proposal_cannot_be_approved_where_nothing_may_start(of_run, why):
    approve, reject = buttons.approval(proposal(**of_run), everything)
    assert (approve.why_not, reject.why_not) == (why, "")
