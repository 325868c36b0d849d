"""What a runbook that waits says: some wait for a person's answer, some start by themselves once a guard opens."""

from dataclasses import dataclass

from controlplane.domain.recovery.choice import HeldBy
from controlplane.incidents.models import Incident
from controlplane.runs.models import Run

BY_ITSELF = {
    HeldBy.PARTITION: "once the fleet can be seen again",
    HeldBy.STORAGE: "once the storage answers",
    HeldBy.BUCKET: "once another restart is earned",
    HeldBy.BACKOFF: "once the pause is over",
}
"""Guards that open without anybody, and when."""

BARRED = {
    HeldBy.OPERATOR: "nothing is begun before the hold is ended",
    HeldBy.KILL_SWITCH: "nothing is begun before automation is switched on again",
    HeldBy.WATCH: "nothing is begun while the run is only watched",
    HeldBy.BEHIND: "nothing is begun before the runbook that has the run goes on or is stopped",
}
"""Guards that no approval opens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """`unanswered` says what happens when nobody answers."""

    why: str
    doing: str
    next: str
    unanswered: str


def waiting(incident: Incident, run: Run) -> Waiting:
    """Put what keeps a proposal from starting into words, as it stands now."""
    by, why = _reason(incident, run)
    if by in BY_ITSELF:
        start = f"start by itself {BY_ITSELF[by]}"
        return Waiting(
            why=why, doing=f"nothing yet: {why}", next=start, unanswered=f"without an answer it will {start}"
        )
    if by in BARRED:
        return Waiting(why=why, doing=f"nothing: {why}", next=BARRED[by], unanswered=BARRED[by])
    return Waiting(
        why=why,
        doing="nothing until somebody approves",
        next="",
        unanswered="without an answer nothing is done: the incident stays open and the run stands still",
    )


def _reason(incident: Incident, run: Run) -> tuple[HeldBy, str]:
    """A hold is told at once; the decision is taken anew only with the next look."""
    if run.held:
        return HeldBy.OPERATOR, f"{run.held_by or 'an operator'} holds the run"
    by = str(incident.decision.get("held_by") or "")
    known = HeldBy(by) if by in set(HeldBy) else HeldBy.ASK
    return known, str(incident.decision.get("why") or "the run asks before it acts")
