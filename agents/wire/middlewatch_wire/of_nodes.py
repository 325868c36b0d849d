"""What an agent tells about its machine."""

from typing import Annotated

from msgspec import Meta

from middlewatch_wire.limits import MAX_ITEMS
from middlewatch_wire.shapes import Data, Int, Name, Number, Part, Rank, Text, Texts


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
