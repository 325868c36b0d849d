"""What an incident costs while people look at it."""

from dataclasses import dataclass
from datetime import datetime

from controlplane.domain.diagnosis.classes import Family, class_of
from controlplane.incidents.models import Incident, IncidentState
from controlplane.web.present.words import HOUR, gpu_hours, number, plural, span


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Idle GPUs since the first bad moment; `ticking` while nothing is training."""

    gpus: int
    began: datetime
    seconds: float
    ticking: bool
    steps: int | None

    @property
    def hours(self) -> float:
        """GPU-hours so far."""
        return self.gpus * self.seconds / HOUR

    @property
    def words(self) -> str:
        """One line: who idles, how long, how much, and what was lost for good."""
        head = f"{plural(self.gpus, 'GPU')} idle" if self.ticking else f"{plural(self.gpus, 'GPU')} idled"
        parts = [head, span(self.seconds), gpu_hours(self.hours)]
        if self.steps is not None:
            parts.append(f"{number(self.steps)} {'step' if self.steps == 1 else 'steps'} lost")
        return " · ".join(parts)


def of_incident(incident: Incident, gpus: int, now: datetime) -> Cost | None:
    """Add up what an incident has cost until `now`, or in all once it ended; None when no run stands still."""
    if incident.run_id is None or gpus <= 0:
        return None
    measured = incident.losses.get("seconds")
    if measured is None and class_of(incident.klass).family is not Family.STOP:
        return None
    ended = incident.mitigated_at or incident.resolved_at
    seconds = (
        float(measured) if ended and measured is not None else ((ended or now) - incident.began_at).total_seconds()
    )
    steps = incident.losses.get("steps")
    return Cost(
        gpus=gpus,
        began=incident.began_at,
        seconds=max(0.0, seconds),
        ticking=incident.state == IncidentState.OPEN and ended is None,
        steps=int(steps) if steps is not None else None,
    )
