"""Take back a suspicion that the next launch refuted (methods 11.12).

When the same failure comes again without the node that was left out for it, the
node was not the cause. A suspicion that automation set is withdrawn by automation;
a quarantine is proposed for release; an operator's hold is only told about. What a
node showed by itself, a fatal GPU error or its own silence, no later crash refutes.
"""

from collections.abc import Iterable
from datetime import datetime

from controlplane.domain.chronicle import sentences
from controlplane.domain.diagnosis.classes import explains
from controlplane.domain.diagnosis.group import fingerprint
from controlplane.domain.errors import MiddlewatchError
from controlplane.domain.findings import Finding as Judgement
from controlplane.domain.findings import Stage
from controlplane.domain.recovery.acts import Act, Do
from controlplane.fleet.models import Node, NodeState
from controlplane.incidents import acts
from controlplane.incidents.models import Incident
from controlplane.incidents.telling import tell_both
from controlplane.quarantine import actions as quarantine
from controlplane.quarantine.models import LedgerEntry
from controlplane.runs.book import Book
from controlplane.runs.models import Attempt

AUTOMATION = "system"
PERSON = "person"
_SYMPTOMS = ("crash", "crash_no_exit", "hang", "restore_stall")
_LEFT_OUT = (NodeState.SUSPECT, NodeState.DRAINING, NodeState.QUARANTINED)


def refute(incident: Incident, judgement: Judgement, now: datetime, book: Book) -> None:
    """Withdraw what this finding of a later attempt refutes. Part of the caller's transaction."""
    if judgement.klass not in _SYMPTOMS or judgement.attempt is None or not _same_as_before(incident, judgement):
        return
    attempt = Attempt.objects.filter(run=incident.run, number=judgement.attempt).first()
    for name in _left_out(incident) - set(attempt.nodes if attempt else ()):
        if attempt is not None and not _convicted_alone(incident, name):
            _withdraw(incident, name, judgement, now, book)


def _same_as_before(incident: Incident, judgement: Judgement) -> bool:
    kind = fingerprint(judgement)
    earlier = incident.findings.filter(attempt__lt=judgement.attempt, klass=judgement.klass)
    return bool(kind) and earlier.filter(facts__fingerprint=judgement.facts["fingerprint"]).exists()


def _left_out(incident: Incident) -> set[str]:
    """Name the nodes that automation left out in this incident and that are still out."""
    entries = LedgerEntry.objects.filter(incident_id=incident.pk, to_state__in=_LEFT_OUT).exclude(actor_kind=PERSON)
    names = entries.filter(node__state__in=_LEFT_OUT).values_list("node__name", flat=True)
    return {name for name in names if f"node:{name}" not in incident.refuted}


def _convicted_alone(incident: Incident, name: str) -> bool:
    """A finding about the node itself stands, whatever happens elsewhere."""
    sure = incident.findings.exclude(confirmed_at=None).exclude(stage=Stage.CLEARED)
    return any(_about(row.entity, row.evidence, name) for row in sure if explains(row.klass, "crash"))


def _about(entity: str, evidence: Iterable[dict[str, object]], name: str) -> bool:
    return entity == f"node:{name}" or (
        entity.startswith("gpu:") and any(line.get("entity") == f"node:{name}" for line in evidence)
    )


def _withdraw(incident: Incident, name: str, judgement: Judgement, now: datetime, book: Book) -> None:
    incident.refuted = [*incident.refuted, f"node:{name}"]
    incident.save(update_fields=["refuted"])
    node = Node.objects.get(name=name)
    what = _release(incident, node, now, book)
    told = sentences.refuted(name, judgement.attempt or 0, what)
    tell_both(incident, "cleared", told, book, key=f"incident:{incident.pk}:refuted:{name}")


def _release(incident: Incident, node: Node, now: datetime, book: Book) -> str:
    """Do what may be done for the node, and say it in one clause."""
    why = "the same failure came again without it"
    if node.held:
        return "an operator holds it, so it stays as it is"
    if node.state == NodeState.SUSPECT:
        key = f"refuted:{incident.pk}:{node.name}"
        try:
            quarantine.move(node.name, NodeState.SPARE, why, actor_kind=AUTOMATION, now=now,
                            incident_id=incident.pk, key=key, book=book)  # fmt: skip
        except MiddlewatchError as error:
            return f"it could not be made a spare again: {error}"
        return "it is a spare again"
    run = incident.run.name if incident.run else None
    act = Act(do=Do.RELEASE, why=why, run=run, node=node.name, args={"to": NodeState.SPARE.value}, proposed=True)
    acts.record(act, now, incident=incident)
    return f"its release from {node.state} is proposed to a person"
