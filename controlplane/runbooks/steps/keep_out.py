"""Hold the bad machine first (R-05): before a replacement is asked for, it can come back no more."""

from controlplane.domain.fleet.states import KEPT_OUT
from controlplane.domain.recovery.responses import condemned
from controlplane.fleet import queries as fleet
from controlplane.incidents import queries as incidents
from controlplane.runbooks import exclusions
from controlplane.runbooks.outcomes import Done, Outcome
from controlplane.runbooks.steps.base import Step
from controlplane.runbooks.turn import Turn


class KeepOut(Step):
    """Quarantine what the evidence condemns; each is told with its evidence."""

    def look(self, turn: Turn) -> Outcome:
        """Weigh the evidence anew; one that an operator holds is left to that operator."""
        diagnosis = incidents.diagnosis(turn.incident, turn.now, attempt=turn.execution.attempt)
        if diagnosis is None:
            return Done({"kept_out": []}, told=True)
        exclusions.condemn(turn, diagnosis)
        names = condemned(diagnosis)
        return Done({"kept_out": [node.name for node in fleet.nodes_for(names) if node.state in KEPT_OUT]}, told=True)
