"""What the fleet's reducer remembers, is told by the runs, and shows."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Self

from controlplane.domain.detection.state import ENDED, LIVE, SightState, Told
from controlplane.domain.detection.view import RunView

WATCHED = frozenset({LIVE, ENDED})


@dataclass(slots=True)
class FleetNode:
    """One node as the fleet's reducer sees it."""

    last_at: float | None = None
    labels: dict[str, str] = field(default_factory=dict)
    scheduler: str = ""
    scheduler_ms: int = -1
    told_serial: int = 0
    told_at: float | None = None


@dataclass(slots=True)
class GroupLoss:
    """Nodes that fell silent together."""

    serial: int = 0
    open: bool = False
    began: float = 0.0
    found_at: float = 0.0
    klass: str = ""
    hold: bool = False
    why: str = ""
    nodes: list[str] = field(default_factory=list)


@dataclass(slots=True)
class FleetState:
    """Everything that the fleet's reducer remembers."""

    nodes: dict[str, FleetNode] = field(default_factory=dict)
    group: GroupLoss = field(default_factory=GroupLoss)
    sight: SightState = field(default_factory=SightState)
    told: dict[str, Told] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Witness:
    """What is known of nodes from elsewhere.

    `busy` are the run's to judge, or kept out of training anyway; `advancing` are outlived
    by a step of their run; `stalled` belong to a run that stands still.
    """

    busy: frozenset[str] = frozenset()
    advancing: frozenset[str] = frozenset()
    stalled: frozenset[str] = frozenset()

    @classmethod
    def of(cls, views: Iterable[RunView], *, kept_out: Iterable[str] = ()) -> Self:
        """Gather what the runs' views say; `kept_out` are quarantined and the like."""
        pairs = [(view, node) for view in views for node in view.nodes if node.member]
        return cls(
            busy=frozenset(node.name for view, node in pairs if view.state in WATCHED or node.verdict) | {*kept_out},
            advancing=frozenset(node.name for view, node in pairs if node.outlived and not view.overdue),
            stalled=frozenset(node.name for view, node in pairs if view.overdue or view.troubled),
        )


NO_WITNESS = Witness()


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetView:
    """The fleet as its reducer sees it; `hold` is the reason to hold automation, "" for none."""

    nodes: Mapping[str, float | None]
    silent: tuple[str, ...]
    lost: tuple[str, ...]
    hold: str
    blind: bool
    frozen: bool
