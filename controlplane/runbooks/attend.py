"""Tell people of an incident and write down what is proposed to them, each thing once.

The acts are a function of how the incident stands (`domain.recovery.attention`), so
nothing is written as long as they stay the same.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from controlplane.domain.chronicle.sentences import full_stop
from controlplane.domain.diagnosis.diagnose import Diagnosis
from controlplane.domain.recovery.acts import Act, Do
from controlplane.domain.recovery.attention import Case, attention, words
from controlplane.domain.recovery.choice import Decision
from controlplane.domain.recovery.responses import condemned
from controlplane.fleet.models import Node
from controlplane.incidents import acts as records
from controlplane.incidents.models import Incident
from controlplane.incidents.telling import stream
from controlplane.runs.book import Book

KINDS: Mapping[Do, str] = {Do.HOLD: "hold"}
MAX_SHOWN = 32


def acts_for(incident: Incident, diagnosis: Diagnosis, decision: Decision) -> list[Act]:
    """Return what is told, held and proposed about an incident as it stands."""
    case = Case(
        diagnosis=diagnosis, decision=decision, run=incident.run.name if incident.run else None,
        attempt=diagnosis.attempt if diagnosis.attempt is not None else incident.attempt,
        quiet=bool(getattr(incident, "quiet", False)), held_nodes=_held(condemned(diagnosis)),
    )  # fmt: skip
    return attention(case)


def _held(names: Sequence[str]) -> frozenset[str]:
    """Return those of the nodes that an operator holds."""
    if not names:
        return frozenset()
    return frozenset(Node.objects.filter(name__in=names, held=True).values_list("name", flat=True))


def shown(acts: Sequence[Act]) -> list[dict[str, Any]]:
    """Return acts in short, as a decision keeps them."""
    return [
        {"do": act.do.value, **({"node": act.node} if act.node else {}), **({"proposed": True} if act.proposed else {})}
        for act in acts[:MAX_SHOWN]
    ]


def write(incident: Incident, acts: Sequence[Act], now: datetime, book: Book) -> None:
    """Record acts and tell each in the incident's chronicle; what is written already stays as it is."""
    for act in acts:
        if records.record(act, now, incident=incident) and (told := words(act)):
            kind = "proposal" if act.proposed else KINDS.get(act.do, "action")
            book.tell(stream(incident), kind, full_stop(told), data={"do": act.do.value})
