"""The question that a proposed execution waits with, as it stands for one viewer."""

from dataclasses import replace
from datetime import datetime
from typing import Any

from controlplane.domain.errors import Refused
from controlplane.notify.queries import readiness, told
from controlplane.runbooks import answering, approvals, gate, grounds, preview, registry
from controlplane.runbooks.models import Approval, ApprovalState, Execution, ExecutionState
from controlplane.web.present import buttons
from controlplane.web.present.approval import Ask, ask
from controlplane.web.present.buttons import May


def card(execution: Execution | None, may: May, now: datetime, *, viewer: str = "") -> dict[str, Any]:
    """Read the approval card, or what a step asks people; empty when nothing waits for a person."""
    if execution is None:
        return {}
    if execution.state != ExecutionState.PROPOSED:
        return {"question": _question(execution, may)}
    question = approvals.newest_of(execution)
    if question is not None and question.state not in (ApprovalState.OPEN, ApprovalState.LAPSED):
        question = None
    approve, reject = buttons.approval(execution, may)
    if not approve.why_not:
        approve = replace(approve, why_not=_barred(execution) or _said(question, viewer))
    return {"ask": _ask(execution, question, now), "approve": approve, "reject": reject}


def _question(execution: Execution, may: May) -> dict[str, Any] | None:
    """Read what a step of an execution asks people now."""
    asked = answering.question(execution) if registry.readable(execution).steps else None
    return {"asked": asked, "execution": execution.pk, "needs": buttons.needs("approve", may)} if asked else None


def signature(execution: Execution) -> str:
    """Name what the card depends on: whoever has the page open sees an answer of somebody else."""
    if execution.state != ExecutionState.PROPOSED:
        return str(execution.step_index)
    newest = approvals.newest_of(execution)
    return f"{newest.pk}.{newest.state}.{len(newest.answers)}" if newest else ""


def _ask(execution: Execution, question: Approval | None, now: datetime) -> Ask:
    will = question.will if question else preview.of(execution, now)
    called = told(f"incident:{execution.incident_id}")
    asked = ask(
        registry.readable(execution).title, question, will, execution.incident, execution.run,
        unready=readiness(now) if called.nobody else "",
    )  # fmt: skip
    changed = grounds.changes(question.world, grounds.of(execution, now)) if question else []
    return replace(asked, changed=changed)


def _barred(execution: Execution) -> str:
    """Say why no yes helps, "" where one does."""
    try:
        gate.may_start(execution)
    except Refused as refusal:
        return str(refusal)
    return ""


def _said(question: Approval | None, viewer: str) -> str:
    agreed = question is not None and any(answer.get("who") == viewer for answer in question.answers)
    return "you agreed; a second person has to" if agreed else ""
