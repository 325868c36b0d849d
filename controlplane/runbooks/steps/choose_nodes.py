"""Choose the nodes of the next attempt; quarantine those that the evidence condemns.

The evidence is weighed anew here: by now the survivors have reported. A silent
node that is not judged yet is waited for, since taking it would waste a launch and
replacing it would waste a spare.
"""

from collections.abc import Mapping

from controlplane.domain.chronicle import sentences
from controlplane.domain.diagnosis.diagnose import Diagnosis
from controlplane.domain.recovery.acts import Do
from controlplane.domain.recovery.nodes import NodeChoice, choose_nodes
from controlplane.domain.recovery.responses import GONE, condemned
from controlplane.incidents import queries as incidents
from controlplane.runbooks import exclusions, left_out
from controlplane.runbooks.candidates import candidates
from controlplane.runbooks.outcomes import Done, Outcome, Propose, Still, Wait
from controlplane.runbooks.queries import persons_behind
from controlplane.runbooks.steps.base import Step
from controlplane.runbooks.turn import Turn

POLL_S = 1.0
MANY = 2
"""People who have to agree where a large share of the fleet is left out."""


class ChooseNodes(Step):
    """Keep what is good, leave out what is condemned, fill up with spares."""

    def look(self, turn: Turn) -> Outcome:
        """Choose, or say what is missing."""
        diagnosis = incidents.diagnosis(turn.incident, turn.now, attempt=turn.execution.attempt)
        exclude = left_out.reasons(turn.execution, diagnosis, turn.now)
        if diagnosis is not None:
            asked = _too_many(turn, diagnosis, exclude)
            if asked is not None:
                return asked
            exclusions.condemn(turn, diagnosis)
        choice = _choose(turn, diagnosis, exclude)
        if not choice.complete:
            _tell_missing(turn, choice)
            return Wait(turn.in_s(POLL_S), choice.why)
        _set_aside(turn, diagnosis, exclude)
        return Done({
            "nodes": list(choice.nodes), "replaced": dict(choice.replaced), "excluded": list(exclude),
            "refused": dict(choice.refused), "why": choice.why,
        })  # fmt: skip

    def preview(self, turn: Turn) -> str | None:
        """Name who is left out, who takes the place, and what becomes of those left out.

        Nodes that have not spoken since the trouble began are named as those that have to: most do within seconds.
        """
        diagnosis = incidents.diagnosis(turn.incident, turn.now, attempt=turn.execution.attempt)
        exclude = left_out.reasons(turn.execution, diagnosis, turn.now)
        doubted = _choose(turn, diagnosis, exclude)
        choice = doubted if doubted.complete or doubted.missing else _choose(turn, None, exclude)
        if not choice.complete:
            return f"wait for the nodes of the next attempt: {choice.why}"
        turn.context["nodes"] = list(choice.nodes)
        swaps = [f"{new} takes the place of {old}" for old, new in sorted(choice.replaced.items())]
        kept = f"launch on {', '.join(choice.nodes)}"
        if doubted.waiting_for:
            has = "has" if len(doubted.waiting_for) == 1 else "have"
            kept += f", once {', '.join(doubted.waiting_for)} {has} spoken since the trouble began"
        out = sorted(set(condemned(diagnosis)) if diagnosis else ())
        return "; ".join([kept, *swaps, *(f"quarantine {node}" for node in out)])

    def expired(self, turn: Turn) -> Outcome:
        """Stay still and say what is missing: a node that is released or comes back lets it go on."""
        return Still("nodes", f"{turn.tried.sentence}; it goes on as soon as that changes")


def _too_many(turn: Turn, diagnosis: Diagnosis, exclude: Mapping[str, str]) -> Outcome | None:
    """Ask two people where it has become more than those who agreed so far may decide."""
    if persons_behind(turn.execution) >= MANY or not left_out.too_many(turn.execution, diagnosis.klass, len(exclude)):
        return None
    return Propose("fleet share", f"{', '.join(sorted(exclude))} would be left out, a large share of the fleet", MANY)


def _set_aside(turn: Turn, diagnosis: Diagnosis | None, exclude: Mapping[str, str]) -> None:
    """Give what is left out a state of its own, or the pool would take it for a good spare."""
    if diagnosis is None:
        return
    exclusions.set_aside(turn, diagnosis, list(exclude))
    if diagnosis.klass != GONE:
        for node in sorted(set(exclude) - set(condemned(diagnosis))):
            why = diagnosis if node in diagnosis.exclude else (left_out.slow(turn.execution, turn.now) or diagnosis)
            exclusions.drain(turn, why, node)


def _choose(turn: Turn, diagnosis: Diagnosis | None, exclude: Mapping[str, str]) -> NodeChoice:
    broken = turn.broken
    current = list(broken.nodes) if broken else []
    return choose_nodes(
        wanted=turn.run.nodes_wanted,
        current=current,
        candidates=candidates(turn, troubled=current, began=diagnosis.began if diagnosis else 0.0),
        exclude=exclude,
        policy=turn.policy,
        least=_least(turn),
    )


def _least(turn: Turn) -> int | None:
    """Return the fewest nodes that are enough by now: a run that declares a range gets smaller after a while (R-07)."""
    least, broken, after = turn.policy.nodes_least, turn.broken, turn.spec.args.get("shrink_after")
    if least is None or (broken is not None and len(broken.nodes) < turn.run.nodes_wanted):
        return least
    waited = (turn.now - turn.step_run.started_at).total_seconds() if turn.step_run else 0.0
    return least if after is not None and waited >= after else None


def _tell_missing(turn: Turn, choice: NodeChoice) -> None:
    told = sentences.nodes_chosen(choice)
    turn.tell("decision", told, key=f"nodes:{choice.missing}:{','.join(choice.waiting_for)}"[:120])
    if choice.missing:
        turn.act(Do.PAGE, f"spares are short: {choice.why}", key=f"spares:{turn.execution.attempt}")
