"""What is told about attempts, checkpoints, schedulers, checks and commands."""

from typing import Annotated, Any, Literal

from msgspec import Meta

from middlewatch_wire.limits import MAX_ITEMS
from middlewatch_wire.shapes import Data, Free, Int, Name, Names, Number, Part, Rank, Text, Texts, Time


class Resume(Part):
    """Where an attempt starts from."""

    step: Int | None = None
    path: Text | None = None
    tier: Text | None = None


class AttemptStarted(Data):
    """A launcher or a scheduler started an attempt."""

    scheduler: Text | None = None
    job_id: Text | None = None
    nodes: Names | None = None
    world_size: Rank | None = None
    fingerprint: Free | None = None
    parameters: Any = None
    resume: Resume | None = None
    supports: Texts | None = None


class AttemptExited(Data):
    """An attempt ended: `completed, failed, killed, node_fail, timeout, preempted`; `by` is whoever had it killed."""

    reason: Text | None = None
    exit_code: Int | None = None
    why: Text | None = None
    by: Text | None = None


class Checkpoint(Data):
    """A checkpoint changed its state."""

    step: Int | None = None
    tier: Text | None = None
    path: Text | None = None
    format: Text | None = None
    state: Text | None = None
    bytes: Int | None = None
    files: Int | None = None
    expected_files: Int | None = None
    blocking_ms: Number | None = None
    duration_ms: Number | None = None
    digest: Text | None = None
    why: Text | None = None


class SchedulerJob(Data):
    """A job as the scheduler sees it, in Slurm's words."""

    job_id: Text | None = None
    state: Text | None = None
    reason: Text | None = None
    by: Text | None = None
    nodes: Names | None = None
    queued_s: Number | None = None
    successors: Any = None
    exclusive: bool | None = None


class SchedulerNode(Data):
    """A node as the scheduler sees it."""

    node: Name | None = None
    state: Text | None = None
    reason: Text | None = None
    owner: Text | None = None


class CapacityNotice(Data):
    """Capacity will go away: `maintenance, preemption, allocation_end`."""

    what: Text | None = None
    nodes: Names | None = None
    begins_at_ms: Time | None = None
    ends_at_ms: Time | None = None


class CheckResult(Data):
    """A check ended: `pass, fail, could_not_check`."""

    check: Text | None = None
    outcome: Text | None = None
    measured: Free | None = None
    expected: Free | None = None
    code: Text | Int | None = None


class Participant(Part):
    """One replica of a quorum."""

    replica: Text | Int | None = None
    step: Int | None = None


class Quorum(Data):
    """A quorum of replica groups was formed."""

    quorum_id: Text | Int | None = None
    participants: Annotated[list[Participant], Meta(max_length=MAX_ITEMS)] | None = None
    recovering: Annotated[list[Text | Int], Meta(max_length=MAX_ITEMS)] | None = None


class CommandResult(Data):
    """How a command stands: `accepted, running, succeeded, failed, refused`."""

    command_id: Annotated[str, Meta(max_length=64)]
    state: Literal["accepted", "running", "succeeded", "failed", "refused"]
    exit_code: Int | None = None
    output_tail: Text | None = None
    data: Free | None = None
