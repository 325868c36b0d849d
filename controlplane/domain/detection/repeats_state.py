"""What is remembered of failed attempts, across attempts."""

from dataclasses import dataclass, field


@dataclass(slots=True)
class Failure:
    """How one attempt failed. `sign` is the kind of failure without rank, node, step and time.

    `place` is the node of the rank that failed first, "*" when all ranks failed alike, ""
    when unknown. `clear` says that a cause was found at all; `machine` that a fault of the
    hardware, the network or the storage explains it.
    """

    attempt: int = 0
    at: float = 0.0
    sign: str = ""
    place: str = ""
    clear: bool = False
    machine: bool = False
    step: int | None = None
    resumed: int | None = None
    since_s: float | None = None
    nodes: list[str] = field(default_factory=list)
    high_water: int = 0


@dataclass(slots=True)
class RepeatsState:
    """Failures since the last durable progress, and what was said about them."""

    failures: list[Failure] = field(default_factory=list)
    serial: int = 0
    klass: str = ""
    found_at: float = 0.0
    began: float = 0.0
    entity: str = ""
