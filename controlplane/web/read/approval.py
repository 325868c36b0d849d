"""The question that a proposed execution waits with, as it stands for one viewer."""

from dataclasses import replace
from datetime import datetime
from typing import Any

from controlplane.domain.errors import Refused
from controlplane.runbooks import approvals, gate, grounds, preview, registry
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
    if not approve.why_not:
        approve = replace(approve, why_not=_barred(execution) or _said(question, viewer))
    return {"ask": _ask(execution, question, now), "approve": approve, "reject": reject}


def _ask(execution: Execution, question: Approval | None, now: datetime) -> Ask:
    will = question.will if question else preview.of(execution, now)
    told = ask(registry.of(execution).title, question, will, execution.incident, execution.run)
    changed = grounds.changes(question.world, grounds.of(execution, now)) if question else []
    return replace(told, changed=changed)


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
