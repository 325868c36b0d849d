"""Let two people agree before a large share of the fleet is given back, as taking it out asks for two.

The first who asks opens a question that stands for a time; another who asks for the same
answers it. Whoever says no closes it. What would be given back is part of the question:
when that has changed, it is asked anew.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

from controlplane.domain.chronicle.words import count
from controlplane.domain.errors import Refused
from controlplane.quarantine import queries as ledger
from controlplane.runbooks import approvals, left_out, registry
from controlplane.runbooks.models import Approval, ApprovalState, Execution
from controlplane.runbooks.steps.give_back import taken
from controlplane.runs import queries as runs

PERSONS = 2


def nodes(execution: Execution, now: datetime) -> list[str]:
    """Name the nodes that taking back would return to the pool: those that nobody has moved since."""
    entries = taken(execution, execution.steps.filter(undo=False), now)
    newest = {entry.node.name: entry for entry in entries}
    moved = {name: ledger.moves(name).first() for name in newest}
    return sorted(name for name, entry in newest.items() if moved[name] == entry)


def is_wide(execution: Execution, names: Sequence[str]) -> bool:
    """Whether one person may not give back so many; also what was gone by itself counts, since it comes back."""
    return left_out.too_many(execution, "", len(names))


def open_of(execution: Execution, now: datetime) -> Approval | None:
    """Return the question that waits for a second person."""
    asked = execution.approvals.filter(purpose=Approval.Purpose.UNDO, state=ApprovalState.OPEN, until__gt=now)
    return asked.first()


def agree(execution: Execution, by: str, now: datetime) -> str:
    """Count somebody who wants a locked execution taken back; return the names of all once it may be, else "".

    Raises:
        Refused: the same person asked before.
    """
    names, asked = nodes(execution, now), open_of(execution, now)
    if not is_wide(execution, names):
        approvals.settle(execution.approvals.all(), ApprovalState.WITHDRAWN, now)
        return by
    if asked is None or asked.world.get("nodes") != names:
        _ask(execution, names, by, now)
        return ""
    if any(answer["who"] == by for answer in asked.answers):
        raise Refused(f"{by} asked for it already; it needs a second person")
    _close(asked, ApprovalState.APPROVED, _said(by, "yes", "", now), now)
    return " and ".join(str(answer["who"]) for answer in asked.answers)


def _ask(execution: Execution, names: Sequence[str], by: str, now: datetime) -> None:
    approvals.settle(execution.approvals.all(), ApprovalState.STALE, now)
    life = timedelta(seconds=runs.policy(execution.run).approval_s)
    Approval.objects.create(
        execution=execution, purpose=Approval.Purpose.UNDO, persons=PERSONS, world={"nodes": list(names)},
        why=f"{by} wants to take back what it did, a large share of the fleet", asked_at=now, until=now + life,
        will=[f"give back {', '.join(names)}"], answers=[_said(by, "yes", "", now)],
    )  # fmt: skip


def turn_down(execution: Execution, number: int, by: str, now: datetime, why: str) -> bool:
    """Close the question `number` with a no; False when it is no open question of this kind."""
    mine = execution.approvals.filter(purpose=Approval.Purpose.UNDO, state=ApprovalState.OPEN, pk=number)
    asked = mine.select_for_update().first()
    if asked is None:
        return False
    _close(asked, ApprovalState.REJECTED, _said(by, "no", why, now), now)
    return True


def _close(asked: Approval, state: str, answer: dict[str, str], now: datetime) -> None:
    asked.answers, asked.state, asked.settled_at = [*asked.answers, answer], state, now
    asked.save(update_fields=["answers", "state", "settled_at"])


def _said(by: str, said: str, why: str, now: datetime) -> dict[str, str]:
    return {"who": by, "said": said, "at": now.isoformat(), "why": why}


def told(execution: Execution, by: str, names: Sequence[str]) -> str:
    """Say that a second person is asked."""
    title = registry.readable(execution).title
    return (
        f"{by} wants to take back what “{title}” did, which gives back {count(len(names), 'node')}; "
        "one more person has to agree."
    )
