"""A runbook tried on a past incident: what would be chosen now, and what it would do."""

from collections.abc import Sequence
from dataclasses import dataclass

from controlplane.domain.diagnosis.classes import class_of
from controlplane.domain.recovery.runbook import Answer, Runbook
from controlplane.incidents.models import Incident
from controlplane.runbooks import registry
from controlplane.runbooks.trial import Held, Trial
from controlplane.web.present import words
from controlplane.web.present.execution import say


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """`sentence` says what would happen; `answers` why this runbook would be chosen or not."""

    sentence: str
    why: str
    answers: Sequence[tuple[Answer, Sequence[Held]]]
    steps: Sequence[str]
    other: str = ""


def words_of(runbook: Runbook, tried: Trial | None, incident: Incident) -> Tried:
    """Put a trial into words."""
    if tried is None:
        return Tried(sentence="Nothing of this incident is left to judge.", why="", answers=(), steps=())
    chosen = tried.decision.runbook
    return Tried(
        sentence=_sentence(runbook, tried),
        why=words.sentence(tried.decision.why),
        answers=tried.answers,
        steps=_steps(runbook, incident) if chosen == runbook.id else (),
        other=chosen if chosen and chosen != runbook.id else "",
    )


def _sentence(runbook: Runbook, tried: Trial) -> str:
    chosen, decision = tried.decision.runbook, tried.decision
    if chosen is None:
        return "No runbook would answer it."
    if chosen != runbook.id:
        no_answer = "" if tried.answers else f"it does not answer {class_of(tried.klass).title}: "
        return f"Not this one; {no_answer}{registry.runbook(chosen).title} would answer."
    if decision.starts:
        return "It would start at once."
    return "It would start by itself later." if decision.waits else "It would be proposed and wait for a person."


def _steps(runbook: Runbook, incident: Incident) -> list[str]:
    """Say the steps with what is known before any of them has begun."""
    known = {"attempt": incident.attempt}
    return [words.sentence(say(spec, known)) for spec in runbook.steps]
