"""Planned maintenance as it was declared."""

from dataclasses import dataclass, field


@dataclass(slots=True)
class Window:
    """The newest notice about one node: from `begins` to `ends`, seconds since the epoch; `at_ms` orders notices."""

    begins: float = 0.0
    ends: float = 0.0
    at_ms: int = -1


@dataclass(slots=True)
class Maintenance:
    """Windows by node; `everybody` stands for a notice that names no node."""

    windows: dict[str, Window] = field(default_factory=dict)
    everybody: Window = field(default_factory=Window)
    resting: bool = False


@dataclass(slots=True)
class Overrun:
    """Nodes that did not come back from maintenance, told as one."""

    serial: int = 0
    open: bool = False
    began: float = 0.0
    found_at: float = 0.0
    nodes: list[str] = field(default_factory=list)
