"""The acts that a page offers. A forbidden one stays visible, with what it needs."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from controlplane.domain.access.policy import least_role
from controlplane.fleet.models import Node
from controlplane.incidents.models import Incident, IncidentState
from controlplane.runbooks.models import Execution, ExecutionState
from controlplane.runs.models import Mode, Run, RunState

May = Callable[[str], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Button:
    """A form of one button; `why_not` says why it is disabled, empty when it is not."""

    label: str
    icon: str
    url: str
    why_not: str = ""
    look: str = ""
    link: bool = False


def needs(act: str, may: May) -> str:
    """Say which role an act needs, "" for who has it."""
    return "" if may(act) else f"needs the role {least_role(act)}"


def _button(act: str, may: May, label: str, icon: str, url: str, *, why_not: str = "", look: str = "") -> Button:
    return Button(label=label, icon=icon, url=url, why_not=why_not or needs(act, may), look=look)


def thumb(incident: Incident, execution: Execution | None, may: May, *, asks: bool = False) -> list[Button]:
    """Offer the two acts of 3 am: acknowledge, and stop the machine from going on, or answer what it `asks`."""
    if asks or (execution is not None and execution.state == ExecutionState.PROPOSED):
        decide = Button(label="Decide", icon="question", url="#approval", look="first", link=True)
        return [replace(_acknowledge(incident, may), look=""), decide]
    return [_acknowledge(incident, may), pause(execution, may)]


def _acknowledge(incident: Incident, may: May) -> Button:
    url = f"/incidents/{incident.pk}/acknowledge/"
    if incident.acknowledged_at:
        return _button(
            "acknowledge", may, "Acknowledged", "check", url, why_not="by " + (incident.acknowledged_by or "a person")
        )
    closed = "the incident is resolved" if incident.state == IncidentState.RESOLVED else ""
    return _button("acknowledge", may, "Acknowledge", "person", url, why_not=closed, look="first")


def pause(execution: Execution | None, may: May) -> Button:
    """Offer to keep a runbook from its next step, or to let it go on."""
    if execution is None:
        return Button(label="Pause runbook", icon="pause", url="", why_not="no runbook is running")
    url = f"/executions/{execution.pk}"
    if execution.state == ExecutionState.PAUSED:
        return _button("resume_runbook", may, "Resume runbook", "play", f"{url}/resume/", look="first")
    going = execution.state in (ExecutionState.RUNNING, ExecutionState.WAITING)
    return _button(
        "pause_runbook",
        may,
        "Pause runbook",
        "pause",
        f"{url}/pause/",
        why_not="" if going else "no runbook is running",
    )


def approval(execution: Execution, may: May) -> list[Button]:
    """Offer to approve or reject what a runbook proposes; nothing starts on a run that is held or only watched."""
    url, run = f"/executions/{execution.pk}", execution.run
    barred = f"{run.held_by or 'an operator'} holds the run" if run.held else ""
    if run.mode == Mode.WATCH:
        barred = "the run is only watched"
    return [
        _button("approve", may, "Approve", "check", f"{url}/approve/", why_not=barred, look="first"),
        _button("reject", may, "Reject", "cross", f"{url}/reject/", look="danger"),
    ]


def stop_runbook(execution: Execution, may: May) -> Button:
    """Offer to end an execution for good."""
    return _button("stop_runbook", may, "Stop runbook", "stop", f"/executions/{execution.pk}/stop/", look="danger")


def control(execution: Execution, may: May) -> list[Button]:
    """Offer what a person may do to an execution under way: wait, end behind this step, end now."""
    url = f"/executions/{execution.pk}"
    asked = f"{execution.stop_after_by} asked for it" if execution.stop_after_by else ""
    going = execution.state in (ExecutionState.RUNNING, ExecutionState.WAITING)
    after = _button("stop_runbook", may, "Stop after this step", "step", f"{url}/stop_after/", why_not=asked)
    now = replace(stop_runbook(execution, may), label="Stop now")
    return [pause(execution, may), after, now] if going else [pause(execution, may), now]


def undo(execution: Execution, may: May, *, label: str = "Take it back", why_not: str = "") -> Button:
    """Offer to take back what an execution did."""
    url = f"/executions/{execution.pk}/undo/"
    return _button("stop_runbook", may, label, "undo", url, why_not=why_not, look="danger")


def keep(execution: Execution, may: May) -> Button:
    """Offer to say no to somebody who wants it taken back."""
    return _button("reject", may, "Leave it as it is", "cross", f"/executions/{execution.pk}/reject/")


def run(subject: Run, may: May) -> list[Button]:
    """Offer to hold a run, or to give it back to automation."""
    url = f"/runs/{subject.name}"
    if subject.held:
        return [_button("resume_run", may, "End the hold", "play", f"{url}/resume/", look="first")]
    over = "the run is over" if subject.state == RunState.COMPLETED else ""
    return [_button("hold_run", may, "Hold the run", "pause", f"{url}/hold/", why_not=over)]


def save_now(subject: Run, may: May, why_not: str) -> Button:
    """Offer to ask the training for a checkpoint."""
    return _button("save_now", may, "Save now", "disk", f"/runs/{subject.name}/save-now/", why_not=why_not)


def release(node: Node, may: May) -> Button:
    """Offer to let a node out of quarantine."""
    held = "an operator holds it" if node.held else ""
    return _button("release_node", may, "Release", "play", f"/nodes/{node.name}/release/", why_not=held)
