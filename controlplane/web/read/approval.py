"""The question that a proposed execution waits with, as it stands for one viewer."""

from dataclasses import replace
from datetime import datetime
from typing import Any

from controlplane.runbooks import approvals, grounds, preview, registry
from controlplane.runbooks.models import Approval, ApprovalState, Execution, ExecutionState
from controlplane.web.present import buttons
from controlplane.web.present.approval import Ask, ask
from controlplane.web.present.buttons import May


def card(execution: Execution | None, may: May, now: datetime, *, viewer: str = "") -> dict[str, Any]:
    """Read the approval card; empty when nothing waits for a person."""
    if execution is None or execution.state != ExecutionState.PROPOSED:
        return {"ask": None}
    question = approvals.newest_of(execution)
    if question is not None and question.state not in (ApprovalState.OPEN, ApprovalState.LAPSED):
        question = None
    approve, reject = buttons.approval(execution, may)
    if question is not None and not approve.why_not and _said(question, viewer):
        approve = replace(approve, why_not="you agreed; a second person has to")
    return {"ask": _ask(execution, question, now), "approve": approve, "reject": reject}


def _ask(execution: Execution, question: Approval | None, now: datetime) -> Ask:
    will = question.will if question else preview.of(execution, now)
    told = ask(registry.of(execution).title, question, will, execution.incident, execution.run)
    changed = grounds.changes(question.world, grounds.of(execution, now)) if question else []
    return replace(told, changed=changed)


def _said(question: Approval, viewer: str) -> bool:
    return any(answer.get("who") == viewer for answer in question.answers)
