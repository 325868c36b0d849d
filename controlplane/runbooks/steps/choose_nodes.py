"""Choose the nodes of the next attempt; quarantine the one that the evidence condemns.

The evidence is weighed anew here: by now the survivors have reported. A silent
node that is not judged yet is waited for, since taking it would waste a launch and
replacing it would waste a spare.
"""

from typing import Any

from controlplane.domain.chronicle import sentences
from controlplane.domain.diagnosis.diagnose import Diagnosis
from controlplane.domain.errors import Conflict, NotFound, Refused
from controlplane.domain.recovery.nodes import NodeChoice, choose_nodes
from controlplane.incidents import queries as incidents
from controlplane.quarantine import actions as quarantine
from controlplane.runbooks.candidates import candidates
from controlplane.runbooks.outcomes import Done, Outcome, Still, Wait
from controlplane.runbooks.steps.base import Step
from controlplane.runbooks.turn import Turn

POLL_S = 1.0


class ChooseNodes(Step):
    """Keep what is good, leave out what is condemned, fill up with spares."""

    def look(self, turn: Turn) -> Outcome:
        """Choose, or say what is missing."""
        diagnosis = incidents.diagnosis(turn.incident, turn.now, attempt=turn.execution.attempt)
        exclude = [diagnosis.act_on] if diagnosis and diagnosis.act_on else []
        if diagnosis and diagnosis.act_on:
            _quarantine(turn, diagnosis, diagnosis.act_on)
        choice = _choose(turn, diagnosis, exclude)
        if not choice.complete:
            _tell_missing(turn, choice)
            return Wait(turn.in_s(POLL_S), choice.why)
        return Done({
            "nodes": list(choice.nodes), "replaced": dict(choice.replaced), "excluded": exclude,
            "refused": dict(choice.refused), "why": choice.why,
        })  # fmt: skip

    def expired(self, turn: Turn) -> Outcome:
        """Stay still and say what is missing: a node that is released or comes back lets it go on."""
        return Still("nodes", f"{turn.tried.sentence}; it goes on as soon as that changes")


def _choose(turn: Turn, diagnosis: Diagnosis | None, exclude: list[str]) -> NodeChoice:
    broken = turn.broken
    current = list(broken.nodes) if broken else []
    return choose_nodes(
        wanted=turn.run.nodes_wanted,
        current=current,
        candidates=candidates(turn, troubled=current, began=diagnosis.began if diagnosis else 0.0),
        exclude=exclude,
        policy=turn.policy,
    )


def _quarantine(turn: Turn, diagnosis: Diagnosis, node: str) -> None:
    """Take the condemned node out once; a hold is respected and told."""
    evidence: list[dict[str, Any]] = [
        {"at": line.at, "weight": line.weight, "entity": line.entity, "text": line.text}
        for line in diagnosis.evidence if line.entity == f"node:{node}"
    ]  # fmt: skip
    key = f"incident:{turn.incident.pk}:quarantine:{node}"
    try:
        quarantine.quarantine(
            node, diagnosis.title, evidence, actor_kind="runbook", actor=turn.runbook.id,
            incident_id=turn.incident.pk, key=key, now=turn.now, book=turn.book,
        )  # fmt: skip
    except (Refused, Conflict, NotFound) as refusal:
        turn.tell("hold", f"Node {node} is left out but not quarantined: {refusal}.", key=f"spared:{node}")
        return
    turn.tell("quarantine", sentences.quarantined(node, diagnosis.title), key=f"quarantine:{node}")


def _tell_missing(turn: Turn, choice: NodeChoice) -> None:
    told = sentences.nodes_chosen(choice)
    turn.tell("decision", told, key=f"nodes:{choice.missing}:{','.join(choice.waiting_for)}"[:120])
