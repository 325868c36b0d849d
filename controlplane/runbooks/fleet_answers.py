"""What follows from incidents of the fleet, which belong to no run.

People are told as of a run's incidents. One thing is done unasked: a machine whose own
word condemns it is kept out of training, also when nothing runs on it.
"""

from collections.abc import Iterable
from datetime import datetime

from django.db import transaction

from controlplane.domain.chronicle.sentences import full_stop
from controlplane.domain.diagnosis.diagnose import Diagnosis
from controlplane.domain.errors import Conflict, MiddlewatchError, NotFound, Refused
from controlplane.domain.recovery.acts import Act, Do
from controlplane.domain.recovery.choice import Decision
from controlplane.domain.recovery.responses import condemned
from controlplane.incidents import actions as incidents
from controlplane.incidents import acts as records
from controlplane.incidents import queries
from controlplane.incidents.models import Incident, IncidentState
from controlplane.incidents.telling import stream
from controlplane.quarantine import actions as quarantine
from controlplane.runbooks import attend, breaker, exclusions
from controlplane.runbooks.models import Skip
from controlplane.runs import automation
from controlplane.runs.book import Book
from controlplane.runs.machines import fleet_hold

NOTHING = Decision(runbook=None, why="it belongs to no run")


def answer(moved: Iterable[Incident], now: datetime, *, book: Book) -> None:
    """Tell and do what the fleet's incidents that have just moved ask for. Part of the caller's transaction."""
    for incident in moved:
        diagnosis = queries.diagnosis(incident, now)
        if incident.run_id is not None or diagnosis is None or incident.state == IncidentState.RESOLVED:
            continue
        acts = attend.acts_for(incident, diagnosis, NOTHING)
        if incident.decision.get("actions", []) != attend.shown(acts):
            incidents.decide(incident, {"runbook": None, "held_by": None, "actions": attend.shown(acts)}, now)
            attend.write(incident, acts, now, book)
        if diagnosis.confirmed and diagnosis.mode == "act" and not fleet_hold() and not _skipped(incident):
            _keep_out(incident, diagnosis, now, book)


def _skipped(incident: Incident) -> bool:
    return Skip.objects.filter(incident=incident).exists()


def answer_open(now: datetime) -> None:
    """Answer what is open of the fleet as if it had just moved: automation may act again."""
    with transaction.atomic():
        book = Book(now, "system", "recovery")
        answer(queries.unresolved().filter(run=None, state=IncidentState.OPEN), now, book=book)
        book.write()


def _keep_out(incident: Incident, diagnosis: Diagnosis, now: datetime, book: Book) -> None:
    """Take out what condemns itself; behind an open breaker that is only proposed.

    The fleet is judged before the first machine is taken out, since opening its breaker waits for acts under way.
    """
    nodes = condemned(diagnosis)
    opened = breaker.judge_fleet_alone(now, book) if nodes else ""
    for node in nodes:
        try:
            _quarantine(incident, diagnosis, node, opened, book)
        except (Refused, Conflict, NotFound) as refusal:
            _spare(incident, diagnosis, node, refusal, book)


def _quarantine(incident: Incident, diagnosis: Diagnosis, node: str, opened: str, book: Book) -> None:
    if opened or (opened := automation.share(None).why_opened):
        raise Refused(opened)
    key = f"incident:{incident.pk}:quarantine:{node}"
    quarantine.quarantine(
        node, diagnosis.title, exclusions.evidence(diagnosis, node), actor_kind="runbook", actor="fleet",
        incident_id=incident.pk, key=key, now=book.now, certain=True, book=book,
    )  # fmt: skip
    records.record(Act(do=Do.QUARANTINE, why=diagnosis.title, node=node, key="node"), book.now, incident=incident)


def _spare(incident: Incident, diagnosis: Diagnosis, node: str, refusal: MiddlewatchError, book: Book) -> None:
    told = full_stop(f"Node {node} was not quarantined: {refusal}")
    book.tell(stream(incident), "hold", told, key=f"incident:{incident.pk}:spared:{node}")
    if isinstance(refusal, Refused):
        proposal = Act(do=Do.QUARANTINE, why=diagnosis.title, node=node, proposed=True, key="node")
        records.record(proposal, book.now, incident=incident)
