"""What is remembered of machines' parts and of what logs and counters said about them.

One record serves a run's reducer and the fleet's: a fault on a spare is as true as one
in mid-run. Times ending in `_ms` are the sender's clock and are only compared with
each other; those ending in `_at` are the control plane's clock in seconds.
"""

from dataclasses import dataclass, field
from typing import Any

from controlplane.domain.detection.codec import MEMO

MAX_FAULTS = 512
MAX_BURSTS = 16
MAX_UNITS = 8
MAX_GPUS = 64
MAX_PIDS = 64
MAX_NICS = 64
MAX_MACHINES = 16_384


@dataclass(slots=True)
class Fault:
    """One kind of fault on one part, however often its line came.

    `bursts` are the spans of the sender's clock in which it came again and again; `slot` is
    a PCI address or a port; `mild` says that no line called it worse than not fatal.
    `kept` is the attempt in which it was judged: from then on it stands, whatever the
    machine does afterwards.
    """

    signature: str = ""
    node: str = ""
    gpu: str = ""
    index: int | None = None
    slot: str = ""
    rank: int | None = None
    process: str = ""
    units: list[str] = field(default_factory=list)
    mild: bool = True
    bursts: list[list[int]] = field(default_factory=list)
    boots: list[str] = field(default_factory=list)
    first_at: float = 0.0
    last_at: float = 0.0
    last_ms: int = -1
    said: str = ""
    kept: int | None = None
    old: bool = False


@dataclass(slots=True)
class Slot:
    """Which GPU sits in a slot."""

    index: int | None = None
    uuid: str = ""


@dataclass(slots=True)
class Tenant:
    """Which rank a process is, and the GPU that it was given."""

    rank: int = 0
    gpu: str = ""
    attempt: int = 0


@dataclass(slots=True)
class Gauge:
    """The counters of one GPU as they were last read; `absent` is how many reports lacked it."""

    at_ms: int = -1
    uncorrected: int | None = None
    nvlink: int | None = None
    absent: int = 0
    absent_ms: int = -1


@dataclass(slots=True)
class Nic:
    """A network port as it was last reported."""

    up: bool = True
    at_ms: int = -1


@dataclass(slots=True)
class Machine:
    """One machine: its boot, its GPUs by slot, its processes and its counters.

    `asked` counts how often the fleet was asked for what the machine said in its hello;
    `alike` is the last report of its GPUs that said nothing, so that the same one again says nothing.
    """

    asked: int = 0
    boot_id: str = ""
    boot_ms: int = -1
    boot_at: float = 0.0
    reboots: list[float] = field(default_factory=list)
    switch: str = ""
    slots: dict[str, Slot] = field(default_factory=dict)
    gauges: dict[str, Gauge] = field(default_factory=dict)
    pids: dict[int, Tenant] = field(default_factory=dict)
    nics: dict[str, Nic] = field(default_factory=dict)
    alike: Any = field(default=None, compare=False, metadata=MEMO)


@dataclass(slots=True)
class Unknown:
    """A kind of line that looks like trouble and is in no row of the table; `node` said it last."""

    count: int = 0
    node: str = ""
    nodes: list[str] = field(default_factory=list)
    first_at: float = 0.0
    last_at: float = 0.0
    last_ms: int = -1
    said: str = ""


@dataclass(slots=True)
class HardwareState:
    """Everything that logs and counters told."""

    faults: dict[str, Fault] = field(default_factory=dict)
    machines: dict[str, Machine] = field(default_factory=dict)
    unknown: dict[str, Unknown] = field(default_factory=dict)
