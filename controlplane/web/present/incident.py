"""The state card of an incident: the sentence that is read first, at 3 am, on a phone."""

from dataclasses import dataclass
from datetime import datetime

from controlplane.domain.diagnosis.classes import CLASSES, Family
from controlplane.incidents.models import Incident, IncidentState
from controlplane.runs.models import Run, RunState
from controlplane.web.present import badges
from controlplane.web.present.cost import Cost
from controlplane.web.present.execution import Progress
from controlplane.web.present.needs import Need
from controlplane.web.present.proposal import Waiting, waiting
from controlplane.web.present.words import Badge, sentence, span

UNDECIDED = "deciding what to do"
LEFT_TO_PEOPLE = "nothing more by itself: it is left to people"
NEEDS_PERSON = "nothing by itself: a person must decide"
BLIND = frozenset(name for name, one in CLASSES.items() if one.about_sight) | {"correlated_loss"}
SLOW = frozenset(name for name, one in CLASSES.items() if one.family is Family.ADVICE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """What stands above the fold of an incident page; `need` says who has to act, None once it is over."""

    headline: str
    tone: str
    where: str
    severity: Badge
    state: Badge
    need: Badge | None
    acknowledged: str
    cost: Cost | None
    doing: str
    place: str
    next: str
    until: datetime | None


def card(
    incident: Incident, run: Run | None, cost: Cost | None, progress: Progress | None, need: Need = Need.NOTHING
) -> Card:
    """Put an incident into the words of its state card. Reads no database."""
    return Card(
        headline=headline(incident, run, launched=progress is not None and progress.launched),
        tone=_tone(incident),
        where=sentence(incident.title),
        severity=badges.of(badges.SEVERITY, incident.severity),
        state=badges.of(badges.INCIDENT, incident.state),
        need=badges.NEED.get(need),
        acknowledged=acknowledged(incident),
        cost=cost,
        doing=sentence(_doing(incident, run, progress)),
        place=progress.place if progress else "",
        next=sentence(_next(incident, run, progress)),
        until=progress.until if progress else None,
    )


def headline(incident: Incident, run: Run | None, *, launched: bool = False) -> str:
    """Say how things stand, not what was detected: that is the second line.

    `launched`: the next attempt is there, though it is not beyond what was reached before.
    """
    if run is None:
        return sentence(CLASSES[incident.klass].title if incident.klass in CLASSES else incident.title)
    if incident.state == IncidentState.OPEN:
        return f"Run {run.name} {'is starting again' if launched else _trouble(incident)}"
    return f"Run {run.name} {_ending(incident, run)}"


def _trouble(incident: Incident) -> str:
    if incident.klass in BLIND:
        return "may be running, but cannot be seen"
    if incident.klass in SLOW:
        return "goes on, but not as it should"
    return "may have stopped" if incident.confirmed_at is None else "is stopped"


def _ending(incident: Incident, run: Run) -> str:
    """Say how the incident ended for the run; what the run met later belongs to other pages."""
    if incident.mitigated_at:
        return f"recovered after {span(_trouble_s(incident, incident.mitigated_at))}"
    return "has completed" if run.state == RunState.COMPLETED else "is no longer in this incident"


def _trouble_s(incident: Incident, ended: datetime) -> float:
    """Say how long it lasted: the standstill as measured, but a slow run stood still for its cure alone."""
    measured = None if incident.klass in SLOW else incident.losses.get("seconds")
    return float(measured) if measured is not None else (ended - incident.began_at).total_seconds()


def acknowledged(incident: Incident) -> str:
    """Say whether a person has seen it; one that ended before anybody did needs nobody."""
    if incident.acknowledged_at is None:
        return "not acknowledged" if incident.state == IncidentState.OPEN else ""
    return f"acknowledged by {incident.acknowledged_by}" if incident.acknowledged_by else "acknowledged"


def _tone(incident: Incident) -> str:
    if incident.state == IncidentState.RESOLVED:
        return "good"
    if incident.state == IncidentState.MITIGATED or incident.severity != "critical":
        return "warn"
    return "bad"


def _doing(incident: Incident, run: Run | None, progress: Progress | None) -> str:
    """Say what the machine does; nothing once the incident is over, for then the cost says how it ended."""
    if incident.state == IncidentState.RESOLVED:
        return ""
    if incident.state == IncidentState.MITIGATED:
        return "watching whether it lasts"
    if proposal := _proposal(incident, run, progress):
        return proposal.doing
    return progress.doing if progress is not None else _without_runbook(incident, run)


def _without_runbook(incident: Incident, run: Run | None) -> str:
    if incident.decision.get("why"):
        return f"nothing: {incident.decision['why']}"
    if run is None and incident.decision:
        return LEFT_TO_PEOPLE
    return UNDECIDED if incident.confirmed_at else "watching; a suspicion alone changes nothing"


def _proposal(incident: Incident, run: Run | None, progress: Progress | None) -> Waiting | None:
    """Say what keeps a proposal, or under a hold any answer, from starting; what is begun says so itself."""
    proposed = progress is not None and progress.badge == badges.EXECUTION["proposed"]
    if run is None or not (proposed or (run.held and progress is None)):
        return None
    return waiting(incident, run)


def _next(incident: Incident, run: Run | None, progress: Progress | None) -> str:
    """Say what follows; where nothing does by itself, that a person is needed."""
    if progress is None or incident.state != IncidentState.OPEN:
        return ""
    if proposal := _proposal(incident, run, progress):
        return proposal.next or progress.next
    return NEEDS_PERSON if progress.final and progress.badge.tone != "good" else progress.next
