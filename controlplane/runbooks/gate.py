"""The last question before the first act on a run: may this be done without a person?

The choice was made earlier, perhaps at a first suspicion, so the run's switch, the
rule's and the bucket of restarts are asked again at the moment of the act. A hang that
clears costs no token.
"""

from controlplane.domain.diagnosis.diagnose import Diagnosis
from controlplane.runbooks import guards
from controlplane.runbooks.outcomes import Outcome, Propose
from controlplane.runbooks.turn import Turn
from controlplane.runs.models import Mode


def ask(turn: Turn, diagnosis: Diagnosis) -> Outcome | None:
    """Let the act through with None, or ask a person; one restart is spent."""
    if turn.execution.approved_by:
        return None
    if turn.run.mode != Mode.AUTOPILOT:
        return Propose(turn.run.mode, f"the run is set to {turn.run.mode}")
    if diagnosis.mode != "act":
        return Propose("rule", "the rule behind this finding is set to propose only")
    key = f"{turn.run.pk}:{turn.execution.attempt}:{turn.incident.pk}"
    if not guards.spend(turn.run, turn.policy, key, turn.now):
        return Propose("bucket", "all restarts are spent for now")
    return None
