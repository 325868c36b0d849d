"""Acting with a thumb: an approval takes two taps, and the kill switch is one tap away from everywhere."""

import pytest

from controlplane.incidents.models import Incident
from controlplane.runbooks import approvals
from controlplane.runbooks.models import Execution, ExecutionState
from tests.browser.test_looks import keep, violations
from tests.web.world import build, person


def _proposed():
    world = build()
    Execution.objects.filter(pk=world.execution.pk).update(
        state=ExecutionState.PROPOSED, step_index=0, held_by="ask", wake_at=None
    )
    held = {"why": "the run asks before it acts", "held_by": "ask"}
    Incident.objects.filter(pk=world.incident.pk).update(decision=held)
    world.execution.refresh_from_db()
    approvals.ask(world.execution, "the run asks before it acts", world.now)
    return world


def _state(execution):
    return Execution.objects.get(pk=execution.pk).state


@pytest.mark.parametrize(("path", "theme"), [("/incidents/{0}/", "dark"), ("/executions/{1}/", "light")])
def test_an_approval_takes_two_taps_of_which_the_second_is_no_slip(visit, aside, path, theme):
    user, world = aside(person), aside(_proposed)
    address = path.format(world.incident.pk, world.execution.pk)
    page = visit(user, address, width=360, height=780, theme=theme, clock=True)
    keep(page, f"approval-{address.split('/')[1]}")
    assert violations(page) == []
    button = page.locator("button[data-second-tap]")
    assert button.bounding_box()["height"] >= 48
    button.click()
    page.clock.run_for(1000)
    button.click()
    assert button.inner_text().strip() == "Read what will happen …"
    assert aside(_state, world.execution) == ExecutionState.PROPOSED
    page.clock.run_for(600)
    assert button.inner_text().strip() == "Tap again to approve"
    button.click()
    button.wait_for(state="detached")
    assert aside(_state, world.execution) == ExecutionState.RUNNING
