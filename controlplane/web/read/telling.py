"""Put an incident into the words of a message: the same that its page begins with."""

from datetime import datetime

from django.conf import settings

from controlplane.domain.notify.text import Ask, Told
from controlplane.incidents.models import Incident, IncidentState
from controlplane.notify import registry
from controlplane.runbooks import answering, approvals
from controlplane.runbooks import registry as runbooks
from controlplane.runbooks.models import Approval, Execution
from controlplane.web.present.incident import Card
from controlplane.web.read import incident as read
from controlplane.web.read.execution import undoable


def register() -> None:
    """Tell those who send messages how incidents are put into words."""
    registry.register("incident", incident)


def incident(subject: str, now: datetime) -> Told:
    """Say how an incident stands: what is wrong, what it costs, what is done about it and what follows."""
    found = read.load(int(subject.partition(":")[2]))
    facts = read.state(found, now)
    card: Card = facts["card"]
    over = found.state != IncidentState.OPEN
    return Told(
        subject=subject, sentence=_sentence(found, card, over=over), run=found.run.name if found.run else "",
        klass=found.klass, severity=found.severity, cost=card.cost.words if card.cost else "", doing=card.doing,
        next=card.next, url=f"{settings.BASE_URL}/incidents/{found.pk}/",
        acknowledged=card.acknowledged if found.acknowledged_at else "", over=over,
        asks=_asks(facts["execution"]), links=_pages(facts["execution"]),
    )  # fmt: skip


def _asks(execution: Execution | None) -> tuple[Ask, ...]:
    """Offer to answer what its runbook asks people; what one person wants taken back waits on its page."""
    asked = approvals.open_of(execution) if execution else None
    if asked is None or asked.purpose == Approval.Purpose.UNDO:
        return ()
    subject = f"approval:{asked.pk}"
    return tuple(
        Ask(word=word, purpose=word.lower(), subject=subject, until=asked.until) for word in ("Approve", "Reject")
    )


def _pages(execution: Execution | None) -> tuple[tuple[str, str], ...]:
    """Link the place where a person answers a step, agrees to an undo, or takes back what was done.

    Each needs more than a yes, so the link leads to the page and does nothing by itself.
    """
    runbook = runbooks.readable(execution) if execution else None
    if execution is None or runbook is None or not runbook.steps:
        return ()
    page = f"{settings.BASE_URL}/executions/{execution.pk}/"
    if answering.question(execution) is not None:
        return (("Answer", f"{page}#approval"),)
    if not undoable(execution, runbook, list(execution.steps.all())):
        return ()
    asked = approvals.open_of(execution)
    wide = asked is not None and asked.purpose == Approval.Purpose.UNDO
    return (("Agree to take it back, or not" if wide else "Take it back", f"{page}#take-back"),)


def _sentence(found: Incident, card: Card, *, over: bool) -> str:
    """State first, then what and where; of what is over the state alone."""
    if over or card.headline == card.where:
        return card.headline
    return f"{card.headline} since {found.began_at:%H:%M} UTC: {card.where}"
