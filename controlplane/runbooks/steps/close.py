"""Write down what the fault cost, and close what may be closed.

The incident is mitigated now. It is resolved at once only when its cause was
excluded or named; else when a durable checkpoint lies behind the onset, which
`incidents.settle` sees to (methods 11.11).
"""

from controlplane.domain.accounting.losses import Losses, losses
from controlplane.domain.chronicle import sentences
from controlplane.incidents import actions as incidents
from controlplane.incidents.models import Incident
from controlplane.runbooks.outcomes import Done, Outcome
from controlplane.runbooks.steps.base import Step
from controlplane.runbooks.turn import Turn
from controlplane.runs.times import seconds


class Close(Step):
    """Measure, tell, close."""

    def look(self, turn: Turn) -> Outcome:
        """Do it all at once; it needs nobody's answer."""
        cost, why = _cost(turn), _closed_by(turn, turn.incident)
        told = f"Run {turn.run.name} makes progress again." if why else sentences.mitigated(turn.run.name)
        incidents.mitigate(turn.incident, told, turn.now, book=turn.book, losses=cost.as_facts())
        turn.tell("loss", sentences.losses(cost), key="loss", data=cost.as_facts())
        if why:
            incidents.resolve(turn.incident, sentences.resolved(turn.run.name, why), turn.now, book=turn.book)
        facts = {"steps": cost.steps, "seconds": round(cost.seconds, 1), "gpu_hours": round(cost.gpu_hours, 4)}
        return Done(facts, told=True)


def _cost(turn: Turn) -> Losses:
    """Count the steps by what is known now: after an outage a death may arrive before the steps that it cost."""
    context, broken = turn.context, turn.broken
    known = (context.get("last_step"), broken.last_step if broken else None)
    return losses(
        last_step=max((step for step in known if step is not None), default=None),
        restore_step=context.get("restore_step"),
        last_progress_at=context.get("last_progress_at"),
        caught_up_at=context.get("caught_up_at"),
        now=seconds(turn.now),
        gpus=turn.run.gpus_per_node * (len(broken.nodes) if broken else turn.run.nodes_wanted),
    )


def _closed_by(turn: Turn, incident: Incident) -> str:
    """Say why the incident is over already, or nothing."""
    excluded = turn.context.get("excluded") or []
    if excluded:
        return f"node {', '.join(excluded)} was excluded and training goes on"
    cause = incident.root_cause
    if cause and "unknown" not in cause:
        return f"the cause is named ({cause}) and training goes on"
    return ""
