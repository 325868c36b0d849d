"""The `data` of every event kind, as typed structures.

Agents of different ages talk to one control plane, so every field may be
missing unless the event says nothing without it, and a field nobody knows is
ignored. Units stand in the names; times are milliseconds since the epoch (UTC).
A number that is not finite travels as `"nan"`, `"inf"` or `"-inf"`.
"""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from middlewatch_wire.limits import MAX_AT_MS, MAX_INT, MAX_INT4, MAX_ITEMS, MAX_NAME, MAX_STRING, MIN_INT

Int = Annotated[int, Meta(ge=MIN_INT, le=MAX_INT)]
Number = Annotated[int, Meta(ge=MIN_INT, le=MAX_INT)] | float | Literal["nan", "inf", "-inf"]
Text = Annotated[str, Meta(max_length=MAX_STRING)]
Name = Annotated[str, Meta(min_length=1, max_length=MAX_NAME)]
Time = Annotated[int, Meta(ge=0, le=MAX_AT_MS)]
Rank = Annotated[int, Meta(ge=0, le=MAX_INT4)]
Texts = Annotated[list[Text], Meta(max_length=MAX_ITEMS)]
Names = Annotated[list[Name], Meta(max_length=MAX_ITEMS)]
Ranks = Annotated[list[Rank], Meta(max_length=MAX_ITEMS)]
Free = Annotated[dict[str, Any], Meta(max_length=MAX_ITEMS)]


class Data(Struct, kw_only=True, omit_defaults=True, gc=False):
    """Base of every kind's `data`."""


class Part(Struct, kw_only=True, omit_defaults=True, gc=False):
    """Base of what is nested inside `data`."""


class Gpu(Part):
    """One GPU as the agent found it."""

    index: Int | None = None
    uuid: Text | None = None
    model: Text | None = None
    memory_bytes: Int | None = None
    pci: Text | None = None
    driver: Text | None = None


class Nic(Part):
    """One network interface as the agent found it."""

    name: Text | None = None
    driver: Text | None = None
    speed_mbps: Int | None = None
    mac: Text | None = None
    guid: Text | None = None


class Hardware(Part):
    """What makes this machine this machine (methods 11.6)."""

    machine_id: Text | None = None
    board_serial: Text | None = None
    provider_id: Text | None = None
    gpus: Annotated[list[Gpu], Meta(max_length=MAX_ITEMS)] | None = None
    nics: Annotated[list[Nic], Meta(max_length=MAX_ITEMS)] | None = None


class NodeHello(Data):
    """An agent introduces its machine, first of all after its start."""

    hostname: Text | None = None
    boot_id: Annotated[str, Meta(max_length=64)] | None = None
    hardware: Hardware | None = None
    labels: Annotated[dict[str, Text], Meta(max_length=64)] | None = None
    capabilities: Texts | None = None
    agent_version: Annotated[str, Meta(max_length=32)] | None = None


class Reader(Part):
    """Liveness of one source that the agent reads."""

    ok: bool | None = None
    last_read_age_s: Number | None = None


class Spool(Part):
    """What waits on the agent's disk; `dropped` counts events lost to its bounds."""

    events: Int | None = None
    bytes: Int | None = None
    dropped: Int | None = None
    dropped_by_kind: Annotated[dict[str, Int], Meta(max_length=64)] | None = None
    error: Text | None = None


class NodeHeartbeat(Data):
    """The agent lives; `lag_ms` is how late it woke."""

    uptime_s: Number | None = None
    readers: Annotated[dict[str, Reader], Meta(max_length=64)] | None = None
    spool: Spool | None = None
    lag_ms: Number | None = None


class Ecc(Part):
    """Error counters of one GPU's memory."""

    volatile_corrected: Int | None = None
    volatile_uncorrected: Int | None = None
    aggregate_corrected: Int | None = None
    aggregate_uncorrected: Int | None = None
    sram_uncorrected: Int | None = None


class Remap(Part):
    """Row remapping of one GPU: waiting for a reset, or out of spare rows."""

    pending: bool | Int | None = None
    failed: bool | Int | None = None
    correctable: Int | None = None
    uncorrectable: Int | None = None


class GpuHealth(Part):
    """One GPU at one moment; `_c` is degrees Celsius, `_w` watts."""

    index: Int | None = None
    uuid: Text | None = None
    util_pct: Number | None = None
    tensor_active_pct: Number | None = None
    temp_c: Number | None = None
    memory_temp_c: Number | None = None
    power_w: Number | None = None
    memory_used_bytes: Int | None = None
    sm_clock_mhz: Number | None = None
    throttle: Texts | None = None
    ecc: Ecc | None = None
    remap: Remap | None = None
    nvlink_errors: Int | None = None
    error: Text | None = None


class HostHealth(Part):
    """The host at one moment."""

    cpu_pct: Number | None = None
    memory_available_bytes: Int | None = None
    memory_total_bytes: Int | None = None
    load1: Number | None = None


class DiskHealth(Part):
    """One file system; `write_probe_ms` is how long a small synced write took."""

    path: Text | None = None
    free_bytes: Int | None = None
    total_bytes: Int | None = None
    free_inodes: Int | None = None
    write_probe_ms: Number | None = None
    error: Text | None = None


class NicHealth(Part):
    """One network interface at one moment."""

    name: Text | None = None
    state: Text | None = None
    errors: Int | None = None


class RankProcess(Part):
    """A rank's process at one moment; `state` is the kernel's letter (R, S, D, T, Z …)."""

    run: Name | None = None
    attempt: Rank | None = None
    rank: Rank | None = None
    pid: Int | None = None
    state: Text | None = None
    cpu_s: Number | None = None
    rss_bytes: Int | None = None


class NodeHealth(Data):
    """Counters and gauges of the machine."""

    gpus: Annotated[list[GpuHealth], Meta(max_length=MAX_ITEMS)] | None = None
    host: HostHealth | None = None
    disks: Annotated[list[DiskHealth], Meta(max_length=MAX_ITEMS)] | None = None
    nics: Annotated[list[NicHealth], Meta(max_length=MAX_ITEMS)] | None = None
    ranks: Annotated[list[RankProcess], Meta(max_length=MAX_ITEMS)] | None = None


class NodeLog(Data):
    """A line of the kernel's or a service's log; `gap` when lines before it were lost."""

    source: Text | None = None
    text: Text | None = None
    boot_id: Text | None = None
    cursor: Text | Int | None = None
    gap: bool | None = None


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
    """Medians of one rank's time per step over a window of steps."""

    first_step: Int | None = None
    last_step: Int | None = None
    compute_ms: Number | None = None
    wait_ms: Number | None = None
    data_ms: Number | None = None


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
    """An attempt ended: `completed, failed, killed, node_fail, timeout, preempted`."""

    reason: Text | None = None
    exit_code: Int | None = None


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


KINDS: dict[str, type[Data]] = {
    "node.hello": NodeHello,
    "node.heartbeat": NodeHeartbeat,
    "node.health": NodeHealth,
    "node.log": NodeLog,
    "rank.started": RankStarted,
    "rank.exited": RankExited,
    "rank.phase": RankPhase,
    "rank.step": RankStep,
    "rank.window": RankWindow,
    "rank.log": RankLog,
    "rank.stack": RankStack,
    "rank.collective": RankCollective,
    "rank.resume": RankResume,
    "attempt.started": AttemptStarted,
    "attempt.exited": AttemptExited,
    "checkpoint": Checkpoint,
    "scheduler.job": SchedulerJob,
    "scheduler.node": SchedulerNode,
    "capacity.notice": CapacityNotice,
    "check.result": CheckResult,
    "quorum": Quorum,
    "command.result": CommandResult,
}
"""Every known kind and the type of its `data`."""
