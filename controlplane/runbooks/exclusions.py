"""Take condemned nodes out of the pool, each once, with the evidence that condemns them.

A node that an operator holds stays as it is: it is left out of the next attempt, and
what automation would have done is told and proposed (methods 11.24).
"""

from collections.abc import Callable, Sequence
from typing import Any

from controlplane.domain.chronicle import sentences
from controlplane.domain.diagnosis.diagnose import Diagnosis
from controlplane.domain.errors import Conflict, NotFound, Refused
from controlplane.domain.recovery.acts import Do
from controlplane.domain.recovery.guards import may_move_again
from controlplane.domain.recovery.responses import GONE, condemned, is_hard
from controlplane.fleet import queries as fleet
from controlplane.fleet.models import NodeState
from controlplane.quarantine import actions as quarantine
from controlplane.quarantine import conflicts
from controlplane.runbooks.turn import Turn
from controlplane.runs.times import seconds

PERSON = "person"


def condemn(turn: Turn, diagnosis: Diagnosis) -> None:
    """Quarantine every node that the diagnosis condemns."""
    for node in condemned(diagnosis):
        if rested(turn, node, fatal=is_hard(diagnosis)):
            _quarantine(turn, diagnosis, node)
        else:
            turn.tell("hold", f"Node {node} was moved a moment ago, so it stays where it is.", key=f"rests:{node}")


def rested(turn: Turn, name: str, *, fatal: bool) -> bool:
    """Say whether automation may judge the node again (methods 8).

    Taking part in an attempt is no verdict, so a node in use may be moved at any time; what
    is out already is not moved again.
    """
    for node in fleet.nodes_for([name]):
        unjudged = node.state_actor_kind == PERSON or node.state != NodeState.SUSPECT
        return may_move_again(
            moved_at=seconds(node.state_since), by_person=unjudged, now=seconds(turn.now), fatal=fatal,
            policy=turn.policy,
        )  # fmt: skip
    return False


def _quarantine(turn: Turn, diagnosis: Diagnosis, node: str) -> None:
    key = f"incident:{turn.incident.pk}:quarantine:{node}"

    def move() -> None:
        quarantine.quarantine(
            node, diagnosis.title, evidence(diagnosis, node), actor_kind="runbook", actor=turn.runbook.id,
            incident_id=turn.incident.pk, key=key, now=turn.now, certain=is_hard(diagnosis), book=turn.book,
        )  # fmt: skip

    if _moved(turn, node, Do.QUARANTINE, diagnosis.title, move):
        turn.tell("quarantine", sentences.quarantined(node, diagnosis.title), key=f"quarantine:{node}")


def evidence(diagnosis: Diagnosis, node: str) -> list[dict[str, Any]]:
    """Return the lines of evidence about a node and what runs in it, as the ledger keeps them."""
    about = {f"node:{node}", *(line.entity for line in diagnosis.evidence if line.entity.startswith("gpu:"))}
    return [
        {"at": line.at, "weight": line.weight, "entity": line.entity, "text": line.text}
        for line in diagnosis.evidence if line.entity in about
    ]  # fmt: skip


def drain(turn: Turn, diagnosis: Diagnosis, node: str) -> bool:
    """Let a suspected node take no further attempt; False when that may not be."""
    key = f"incident:{turn.incident.pk}:drain:{node}"

    def move() -> None:
        quarantine.move(
            node, NodeState.DRAINING, diagnosis.title, actor_kind="runbook", actor=turn.runbook.id,
            evidence=evidence(diagnosis, node), incident_id=turn.incident.pk, key=key, now=turn.now,
            certain=is_hard(diagnosis), book=turn.book,
        )  # fmt: skip

    return _moved(turn, node, Do.DRAIN, diagnosis.title, move)


def set_aside(turn: Turn, diagnosis: Diagnosis, nodes: Sequence[str]) -> None:
    """Mark the nodes of a lost group as suspect: no strike and no quarantine for what they share (L-07)."""
    if diagnosis.klass != GONE:
        return
    for node in fleet.nodes_for(nodes):
        if node.held or node.state not in (NodeState.HEALTHY, NodeState.SPARE):
            continue
        key = f"incident:{turn.incident.pk}:aside:{node.name}"
        quarantine.move(
            node.name, NodeState.SUSPECT, diagnosis.title, actor_kind="runbook", actor=turn.runbook.id,
            incident_id=turn.incident.pk, key=key, now=turn.now, certain=True, book=turn.book,
        )  # fmt: skip


def _moved(turn: Turn, node: str, do: Do, why: str, move: Callable[[], object]) -> bool:
    """Try a move in the ledger; what forbids it is told, and what would have been done is proposed."""
    try:
        move()
    except Refused as refusal:
        _spared(turn, node, do, str(refusal))
        _propose(turn, node, do, why, str(refusal))
        return False
    except (Conflict, NotFound) as refusal:
        _spared(turn, node, do, str(refusal))
        return False
    turn.act(do, why, node=node, key="node")
    return True


PAST = {Do.QUARANTINE: "quarantined", Do.DRAIN: "drained"}


def _spared(turn: Turn, node: str, do: Do, refusal: str) -> None:
    turn.tell("hold", f"Node {node} is left out but not {PAST[do]}: {refusal}.", key=f"spared:{node}")


def _propose(turn: Turn, node: str, do: Do, why: str, refusal: str) -> None:
    """What a hold, a contradiction or an empty budget forbids is a person's to do.

    An operator's own hold calls that operator; of a contradiction people get a note.
    """
    key = f"{turn.execution.attempt}"
    turn.act(do, why, node=node, proposed=True, key=key)
    if conflicts.frozen(node, turn.now):
        turn.act(Do.NOTIFY, f"{why}; {refusal}", node=node, key=f"{key} {node}")
    if any(item.held for item in fleet.nodes_for([node])):
        turn.act(Do.PAGE, f"{why}; {refusal}", key=key)
