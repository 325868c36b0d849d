"""The question that a person is asked before an act: what will happen, to what, why, and what silence means."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from controlplane.incidents.models import Incident
from controlplane.runbooks.models import Approval, ApprovalState
from controlplane.runs.models import Run
from controlplane.web.present import words
from controlplane.web.present.proposal import Waiting, waiting


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """`word` is what is typed to approve; `changed` says what is different from when it was asked."""

    title: str
    why: str
    will: Sequence[str]
    on: str
    agreed: str
    unanswered: str
    word: str
    number: int | None = None
    until: datetime | None = None
    changed: Sequence[str] = ()


def ask(
    title: str, question: Approval | None, will: Sequence[str], incident: Incident, run: Run, *, unready: str = ""
) -> Ask:
    """Put a question into words; one that nobody has written down yet is told from the proposal alone.

    `unready` says why nobody would be called, "" when somebody would.
    """
    held = waiting(incident, run)
    is_open = question is not None and question.state == ApprovalState.OPEN
    return Ask(
        title=title,
        why=words.sentence(held.why),
        will=[words.sentence(sentence) for sentence in will],
        on=_on(question, run),
        agreed=_agreed(question) if question else "",
        unanswered=words.sentence(_unanswered(question, held, unready.rstrip("."))),
        word=run.name,
        number=question.pk if question else None,
        until=question.until if question is not None and is_open else None,
    )


def _on(question: Approval | None, run: Run) -> str:
    left_out = list(question.world.get("exclude") or []) if question else []
    nodes = f", without {words.joined(left_out)}" if left_out else ""
    return f"{run.name}{nodes}"


def _agreed(question: Approval) -> str:
    """Say who has agreed, where one person is not enough."""
    if question.persons < 2:  # noqa: PLR2004 - two-person rule
        return ""
    names = [str(answer.get("who", "")) for answer in question.answers if answer.get("said") == "yes"]
    if not names:
        return "Two different people have to agree: it touches much of the fleet, or goes back far."
    return f"{words.joined(names)} agreed; a second person has to agree as well."


def _unanswered(question: Approval | None, held: Waiting, unready: str) -> str:
    if question is None or "by itself" in held.unanswered:
        return held.unanswered
    if question.state == ApprovalState.LAPSED:
        return "nobody answered in time, so nothing was done and somebody was called; it may still be answered"
    return f"without an answer nothing is done{f'. {unready}' if unready else ', and somebody is called'}"
