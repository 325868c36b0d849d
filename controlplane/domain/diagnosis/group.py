"""Which findings belong to one incident.

A person wants one problem told once: all that happens to a run until it is under
way again is one incident, however many launches it takes (D-02). What
the run survives, and what only concerns our sight of it, is told apart: it must
neither swallow a later crash nor be swallowed by one.
"""

from dataclasses import dataclass

from controlplane.domain.diagnosis.classes import Family, class_of
from controlplane.domain.diagnosis.inhibit import family_of
from controlplane.domain.findings import Finding


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentFacts:
    """What grouping needs to know of an incident that is not resolved.

    `entities` and `fingerprints` are those of its findings; `stage` is that of its leading one.
    """

    run: str | None
    attempt: int | None
    klass: str
    state: str
    severity: str = "critical"
    stage: str = "confirmed"
    entities: frozenset[str] = frozenset()
    fingerprints: frozenset[str] = frozenset()

    @property
    def family(self) -> Family:
        """Say with what the incident is told."""
        return family_of(self.klass, self.severity, self.stage)


def same_incident(incident: IncidentFacts, finding: Finding) -> bool:
    """Say whether `finding` belongs to `incident`.

    While an incident is open every later trouble that stops the run is part of it. Once
    it is mitigated, only news about the attempts it was about is, and the same failure
    again: then nothing had been won. Anything else of a later attempt is a new one.
    """
    if incident.run != finding.run or incident.state == "resolved":
        return False
    family = family_of(finding.klass, finding.severity, finding.stage)
    if incident.family is not family:
        return False
    if family is not Family.STOP or incident.run is None:
        return _same_trouble(incident, finding)
    if opens_anew(incident, finding):
        return False
    return incident.state == "open" or _about_it(incident, finding) or comes_again(incident, finding)


def _same_trouble(incident: IncidentFacts, finding: Finding) -> bool:
    if incident.klass != finding.klass:
        return False
    return _gathers(finding) or not incident.entities or finding.entity in incident.entities


def _gathers(finding: Finding) -> bool:
    """Machines that fail beside each other and outside any run are troubles of their own, a lost group is one."""
    if finding.run is None and class_of(finding.klass).family is Family.STOP:
        return finding.klass in ("correlated_loss", "storage_stall")
    return class_of(finding.klass).gathers


def _about_it(incident: IncidentFacts, finding: Finding) -> bool:
    return incident.attempt is not None and finding.attempt is not None and finding.attempt <= incident.attempt


def comes_again(incident: IncidentFacts, finding: Finding) -> bool:
    """Say whether a mitigated incident's failure is back in a later attempt."""
    print_ = fingerprint(finding)
    return incident.state == "mitigated" and bool(print_) and print_ in incident.fingerprints


def fingerprint(finding: Finding) -> str:
    """Name the kind of failure of a finding, "" when its detector does not."""
    kind = str(finding.facts.get("fingerprint", ""))
    return f"{finding.klass}:{kind}" if kind else ""


def opens_anew(incident: IncidentFacts, finding: Finding) -> bool:
    """Say whether `finding` names what this incident could not, and so becomes one of its own."""
    return class_of(finding.klass).opens_anew and incident.klass != finding.klass
