"""What the REST API shows of runs, their attempts, checkpoints, events and chronicles, and of who asks.

Times are ISO 8601 in UTC; units are in the names, here and in the modules of the other things.
"""

from datetime import datetime
from typing import Any

from ninja import Schema
from pydantic import Field

from controlplane.chronicle.models import Entry
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
