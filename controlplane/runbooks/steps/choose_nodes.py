"""Choose the nodes of the next attempt; quarantine the one that the evidence condemns.

The evidence is weighed anew here: by now the survivors have reported. A silent
node that is not judged yet is waited for, since taking it would waste a launch and
replacing it would waste a spare.
"""

from typing import Any

from controlplane.domain.chronicle import sentences
from controlplane.domain.diagnosis.diagnose import Diagnosis
from controlplane.domain.errors import Conflict, NotFound, Refused
from controlplane.domain.recovery.nodes import Candidate, NodeChoice, choose_nodes
from controlplane.fleet import queries as fleet
from controlplane.fleet.models import Node
from controlplane.incidents import queries as incidents
from controlplane.quarantine import actions as quarantine
from controlplane.runbooks.outcomes import Done, Failed, Outcome, Wait
from controlplane.runbooks.steps.base import Step
from controlplane.runbooks.turn import Turn
from controlplane.runs.models import Attempt, AttemptState, Run

POLL_S = 1.0


class ChooseNodes(Step):
    """Keep what is good, leave out what is condemned, fill up with spares."""

    def look(self, turn: Turn) -> Outcome:
        """Choose, or say what is missing."""
        diagnosis = incidents.diagnosis(turn.incident, turn.now, attempt=turn.execution.attempt)
        exclude = [diagnosis.act_on] if diagnosis and diagnosis.act_on else []
        if diagnosis and diagnosis.act_on:
            _quarantine(turn, diagnosis, diagnosis.act_on)
        choice = _choose(turn, exclude)
        if not choice.complete:
            _tell_missing(turn, choice)
            return Wait(turn.in_s(POLL_S), choice.why)
        return Done({
            "nodes": list(choice.nodes), "replaced": dict(choice.replaced), "excluded": exclude,
            "refused": dict(choice.refused), "why": choice.why,
        })  # fmt: skip

    def expired(self, turn: Turn) -> Outcome:
        """Give up and say what was missing."""
        return Failed(turn.tried.sentence, retry=False)


def _choose(turn: Turn, exclude: list[str]) -> NodeChoice:
    broken = turn.broken
    used = _used_elsewhere(turn.run)
    return choose_nodes(
        wanted=turn.run.nodes_wanted,
        current=broken.nodes if broken else [],
        candidates=[_candidate(node, turn, used) for node in fleet.all_nodes() if not node.head],
        exclude=exclude,
        policy=turn.policy,
    )


def _candidate(node: Node, turn: Turn, used: dict[str, str]) -> Candidate:
    age = None if node.last_seen_at is None else max(0.0, (turn.now - node.last_seen_at).total_seconds())
    return Candidate(
        name=node.name, state=node.state, last_beat_age_s=age, held=node.held,
        conflict=node.identity_conflict, busy=used.get(node.name, ""),
    )  # fmt: skip


def _used_elsewhere(run: Run) -> dict[str, str]:
    """Map each node that another run's living attempt uses to that run's name."""
    others = Attempt.objects.exclude(run=run).exclude(state=AttemptState.EXITED).select_related("run")
    return {name: attempt.run.name for attempt in others for name in attempt.nodes}


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
