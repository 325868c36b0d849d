"""Which findings belong to one incident.

A person wants one problem told once: all that happens to a run until it is under
way again is one incident, however many launches it takes (requirements D-02).
What only concerns our sight of the run is kept apart, since it needs no recovery.
"""

from dataclasses import dataclass

from controlplane.domain.findings import Finding

SIGHT = frozenset({"blind", "telemetry_lost"})
"""Classes that say that we see badly, not that the run is in trouble."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentFacts:
    """What grouping needs to know of an incident that is not resolved."""

    run: str | None
    attempt: int | None
    klass: str
    state: str


def same_incident(incident: IncidentFacts, finding: Finding) -> bool:
    """Say whether `finding` belongs to `incident`.

    While an incident is open every later trouble of the run is part of it. Once it is
    mitigated, only news about the attempts it was about is; a later attempt's trouble
    is a new one.
    """
    if incident.run != finding.run or incident.state == "resolved":
        return False
    if (incident.klass in SIGHT) != (finding.klass in SIGHT):
        return False
    if finding.klass in SIGHT:
        return incident.klass == finding.klass
    if incident.state == "open":
        return True
    return incident.attempt is not None and finding.attempt is not None and finding.attempt <= incident.attempt
