"""What the REST API shows of incidents, their findings and their replays."""

from datetime import datetime
from typing import Any

from ninja import Schema
from pydantic import Field

from controlplane.incidents.models import Incident
from controlplane.incidents.queries import stack_groups
from controlplane.replay.models import Rerun


class IncidentBrief(Schema):
    """One problem, as in the list."""

    id: int
    run: str | None
    attempt: int | None
    klass: str = Field(serialization_alias="class")
    severity: str
    state: str
    title: str
    began_at: datetime
    opened_at: datetime
    confirmed_at: datetime | None
    acknowledged_at: datetime | None
    acknowledged_by: str
    decided_at: datetime | None
    mitigated_at: datetime | None
    resolved_at: datetime | None
    losses: dict[str, Any]

    @staticmethod
    def resolve_run(incident: Incident) -> str | None:
        """Name of the run; null for a problem of the fleet."""
        return incident.run.name if incident.run else None


class FindingOut(Schema):
    """A detector's judgement with the evidence it rests on."""

    key: str
    detector: str
    klass: str = Field(serialization_alias="class")
    stage: str
    entity: str
    began_at: datetime
    found_at: datetime
    confirmed_at: datetime | None
    cleared_at: datetime | None
    evidence: list[Any]
    facts: dict[str, Any]


class StackGroupOut(Schema):
    """Ranks that stood in the same place; `ranks` are the first of `count`, frames innermost first."""

    words: str
    ranks: list[int]
    count: int
    answered: bool
    frames: list[str]


class IncidentOut(IncidentBrief):
    """One problem with everything that is known about it."""

    blamed: list[Any]
    cleared: list[Any]
    decision: dict[str, Any]
    root_cause: str
    findings: list[FindingOut]
    stacks: list[StackGroupOut]
    executions: list[int]
    explained_by_id: int | None = Field(description="the incident that explains it, such as one of the fleet")

    @staticmethod
    def resolve_stacks(incident: Incident) -> list[Any]:
        """Who stood where when stacks were last taken, the few first."""
        return list(stack_groups(incident))

    @staticmethod
    def resolve_findings(incident: Incident) -> list[Any]:
        """All findings, oldest first."""
        return list(incident.findings.order_by("found_at", "pk"))

    @staticmethod
    def resolve_executions(incident: Incident) -> list[int]:
        """Ids of the executions for this incident, oldest first."""
        return list(incident.executions.order_by("pk").values_list("pk", flat=True))


class RerunOut(Schema):
    """A replay of an incident; the times of its report are seconds after `since`."""

    id: int
    incident_id: int
    state: str
    settings: dict[str, Any]
    asked_by: str
    asked_at: datetime
    since: datetime
    until: datetime
    started_at: datetime | None
    finished_at: datetime | None
    events: int | None
    report: dict[str, Any] | None
    why: str

    @staticmethod
    def resolve_settings(rerun: Rerun) -> dict[str, Any]:
        """Settings that differ from the run's own."""
        return dict(rerun.overrides)
