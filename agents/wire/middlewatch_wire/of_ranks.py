"""What is told about the processes of a run."""

from typing import Annotated, Any

from msgspec import Meta

from middlewatch_wire.shapes import Data, Int, Name, Number, Part, Rank, Ranks, Text, Texts


class Groups(Part):
    """Where a rank stands in each dimension of the parallel layout."""

    dp: Int | None = None
    tp: Int | None = None
    pp: Int | None = None
    replica: Int | None = None


class RankStarted(Data):
    """A rank's process runs."""

    node: Name | None = None
    local_rank: Rank | None = None
    pid: Int | None = None
    gpu_uuid: Text | None = None
    groups: Groups | None = None


class RankError(Part):
    """What the process itself said about its end."""

    type: Text | None = None
    message: Text | None = None
    traceback_tail: Text | None = None


class RankExited(Data):
    """A rank's process ended; both `exit_code` and `signal` absent: nobody saw how."""

    exit_code: Int | None = None
    signal: Int | None = None
    error: RankError | None = None
    node: Name | None = None
    local_rank: Rank | None = None
    pid: Int | None = None


class RankPhase(Data):
    """What a rank is busy with beside ordinary steps."""

    phase: Text | None = None
    state: Text | None = None
    done: Number | None = None
    total: Number | None = None
    unit: Text | None = None
    bytes: Int | None = None
    deadline_s: Number | None = None


class RankStep(Data):
    """One optimiser step, told by rank 0."""

    step: Int
    duration_ms: Number | None = None
    tokens: Int | None = None
    loss: Number | None = None
    grad_norm: Number | None = None
    loss_scale: Number | None = None
    lr: Number | None = None
    skipped: bool | None = None


class RankWindow(Data):
    """Medians of one rank's time per step over a window of steps; `dropped` reports never left the process."""

    first_step: Int | None = None
    last_step: Int | None = None
    compute_ms: Number | None = None
    wait_ms: Number | None = None
    data_ms: Number | None = None
    dropped: Int | None = None


class RankLog(Data):
    """A line of a training process, or the tail of its log when it ends."""

    stream: Text | None = None
    text: Text | None = None


class RankStack(Data):
    """Where a rank stands, innermost frame first; not `ok`: it could not be told."""

    tool: Text | None = None
    ok: bool | None = None
    frames: Texts | None = None
    thread: Text | None = None


class RankCollective(Data):
    """The last collective of one process group as a rank sees it."""

    group: Text | None = None
    seq: Int | None = None
    op: Text | None = None
    state: Text | None = None
    sizes: Any = None
    present: Ranks | None = None
    missing: Ranks | None = None
    mismatched: Ranks | None = None


class RankResume(Data):
    """What a rank believes after it loaded its state."""

    step: Int | None = None
    lr: Number | None = None
    optimizer_step: Int | None = None
    betas: Annotated[list[Number], Meta(max_length=64)] | None = None
    rng_digest: Text | None = None
    sampler_position: Int | None = None
    world_size: Rank | None = None
    parameters: Any = None
