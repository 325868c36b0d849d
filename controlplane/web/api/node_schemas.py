"""What the REST API shows of nodes, their history, the commands to them and their tokens."""

from datetime import datetime
from typing import Any
from uuid import UUID

from ninja import Schema

from controlplane.fleet.models import Command


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


class EnrolmentOut(Schema):
    """A fresh enrolment token; it is shown this once."""

    token: str
    uses: int
    expires_at: datetime


class RevokedOut(Schema):
    """How many tokens ended."""

    revoked: int
