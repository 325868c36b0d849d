"""What is remembered of the shared storage: who asked it, who complained, how its room shrinks."""

from dataclasses import dataclass, field


@dataclass(slots=True)
class Probe:
    """The newest write probe of a node: its slowest disk, in milliseconds; `slow_row` counts slow ones running."""

    ms: float = 0.0
    path: str = ""
    at: float = 0.0
    at_ms: int = -1
    slow_row: int = 0


@dataclass(slots=True)
class Room:
    """Free room of one path, as one node sees it: points of (seconds, bytes, inodes), oldest first."""

    node: str = ""
    heard_at: float = 0.0
    heard_ms: int = -1
    total_bytes: float | None = None
    points: list[list[float]] = field(default_factory=list)
    warned: bool = False


@dataclass(slots=True)
class StorageState:
    """`open` while the storage is judged not to answer; `attempt` is the one in which that was last told.

    `bad_at` is when somebody last spoke against it, `closed_at` when the last verdict ended.
    `names` are the paths and file servers that were named while it was open.
    """

    probes: dict[str, Probe] = field(default_factory=dict)
    rooms: dict[str, Room] = field(default_factory=dict)
    serial: int = 0
    open: bool = False
    full: bool = False
    attempt: int | None = None
    since: float = 0.0
    found_at: float = 0.0
    bad_at: float = 0.0
    closed_at: float = 0.0
    sentence: str = ""
    names: list[str] = field(default_factory=list)
