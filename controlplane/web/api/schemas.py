"""What the REST API shows. Times are ISO 8601 in UTC; units are in the names."""

from datetime import datetime
from typing import Any
from uuid import UUID

from ninja import Schema
from pydantic import Field

from controlplane.chronicle.models import Entry
from controlplane.fleet.models import Command
from controlplane.incidents.models import Incident
from controlplane.incidents.queries import stack_groups
from controlplane.replay.models import Rerun
from controlplane.runbooks.models import Execution
from controlplane.runs.models import Run


class Me(Schema):
    """The person who asks."""

    name: str
    role: str
    may: list[str]


class RunOut(Schema):
    """One training goal."""

    name: str
    state: str
    mode: str
    held: bool
    held_by: str
    launcher: str
    nodes_wanted: int
    gpus_per_node: int
    policy: dict[str, Any]
    created_at: datetime
    high_water_step: int
    high_water_at: datetime | None
    attempt: int | None = None

    @staticmethod
    def resolve_attempt(run: Run) -> int | None:
        """Number of the newest attempt."""
        return run.attempts.order_by("-number").values_list("number", flat=True).first()


class AttemptOut(Schema):
    """One launch of a run."""

    number: int
    state: str
    nodes: list[str]
    world_size: int
    scheduler: str
    job_id: str
    resume_step: int
    started_at: datetime
    first_step_at: datetime | None
    last_step: int | None
    last_step_at: datetime | None
    exited_at: datetime | None
    reason: str
    exit_code: int | None


class MeanOut(Schema):
    """A mean in milliseconds and of how many; null of none."""

    ms: float | None
    n: int


class GoodputOut(Schema):
    """The account of a window; the milliseconds of the labels add up to `elapsed_ms`."""

    begin: datetime
    end: datetime
    elapsed_ms: int
    by_label_ms: dict[str, int]
    goodput: float = Field(description="share of the time that trains, work at risk included")
    safe: float = Field(description="share of the time that became work behind a durable checkpoint")
    ettr: float = Field(description="productive share of the window and the queueing before it")
    lost_steps: int
    interruptions: int
    mtbf: MeanOut
    mttd: MeanOut
    mttr_resume: MeanOut
    mttr_caught_up: MeanOut


class CheckpointOut(Schema):
    """One saved state of a run in one tier."""

    id: int
    step: int
    tier: str
    path: str
    state: str
    why: str
    attempt: int
    bytes: int | None
    files: int | None
    expected_files: int | None
    blocking_ms: float | None
    duration_ms: float | None
    began_at: datetime | None
    completed_at: datetime | None
    verified_at: datetime | None


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


class CommandOut(Schema):
    """A command to an agent. `result` is what the agent last said of it: `data`, `exit_code`, `output_tail`."""

    id: UUID
    kind: str
    node: str
    state: str
    args: dict[str, Any]
    created_at: datetime
    deadline: datetime
    finished_at: datetime | None
    result: dict[str, Any]

    @staticmethod
    def resolve_node(command: Command) -> str:
        """Name of the node that carries it out."""
        return command.node.name


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


class EntryOut(Schema):
    """One sentence of a chronicle."""

    number: int
    happened_at: datetime
    recorded_at: datetime
    kind: str
    sentence: str
    actor_kind: str
    actor: str
    data: dict[str, Any]
    corrects: int | None

    @staticmethod
    def resolve_corrects(entry: Entry) -> int | None:
        """Number of the entry that this one corrects."""
        return entry.corrects.number if entry.corrects else None


class NodeOut(Schema):
    """A machine that an agent speaks for."""

    name: str
    state: str
    state_reason: str
    state_since: datetime
    state_actor_kind: str
    held: bool
    head: bool
    identity_conflict: bool
    agent_version: str
    incarnation: str
    boot_id: str
    labels: dict[str, Any]
    hardware: dict[str, Any]
    capabilities: list[Any]
    enrolled_at: datetime
    last_seen_at: datetime | None


class LedgerOut(Schema):
    """One move of a node."""

    at: datetime
    from_state: str
    to_state: str
    reason: str
    evidence: list[Any]
    actor_kind: str
    actor: str
    incident_id: int | None
    strike: bool


class ExecutionBrief(Schema):
    """One use of a runbook, as in the list."""

    id: int
    runbook: str
    version: int
    incident_id: int
    run: str
    attempt: int
    state: str
    step_index: int
    wake_at: datetime | None
    created_at: datetime
    finished_at: datetime | None
    outcome: str

    @staticmethod
    def resolve_run(execution: Execution) -> str:
        """Name of the run."""
        return execution.run.name


class StepOut(Schema):
    """One try of one runbook step."""

    index: int
    name: str
    try_number: int
    state: str
    intent: dict[str, Any]
    result: dict[str, Any]
    sentence: str
    started_at: datetime
    finished_at: datetime | None
    deadline: datetime | None
    undo: bool


class ApprovalOut(Schema):
    """A question to people: `will` is what would be done, `persons` how many have to agree."""

    id: int
    purpose: str
    step: str
    why: str
    will: list[str]
    asked_at: datetime
    until: datetime
    persons: int
    state: str
    answers: list[dict[str, Any]]
    settled_at: datetime | None


class ExecutionOut(ExecutionBrief):
    """One use of a runbook with its steps and the questions it asked."""

    steps: list[StepOut]
    context: dict[str, Any]
    approved_by: str
    stop_after_by: str
    undo_by: str
    approvals: list[ApprovalOut]

    @staticmethod
    def resolve_approvals(execution: Execution) -> list[Any]:
        """Every question, oldest first; the last one may still be open."""
        return list(execution.approvals.all())

    @staticmethod
    def resolve_steps(execution: Execution) -> list[Any]:
        """Every try of every step, in order."""
        return list(execution.steps.all())


class EventOut(Schema):
    """One event as an agent sent it."""

    id: int
    received_at: datetime
    node: str
    incarnation: str
    seq: int
    at_ms: int
    kind: str
    run: str | None
    attempt: int | None
    rank: int | None
    data: dict[str, Any]


class RevokedOut(Schema):
    """How many tokens ended."""

    revoked: int


class EnrolmentOut(Schema):
    """A fresh enrolment token; it is shown this once."""

    token: str
    uses: int
    expires_at: datetime
