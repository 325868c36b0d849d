"""What the fleet's reducer remembers, is told by the runs, and shows."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Self

from controlplane.domain.detection.hardware_state import HardwareState
from controlplane.domain.detection.hearing_state import Hearing
from controlplane.domain.detection.maintenance_state import Maintenance, Overrun
from controlplane.domain.detection.state import COMPLETED, ENDED, LIVE, SightState, Told
from controlplane.domain.detection.view import NodeView, RunView
from controlplane.domain.fleet.spares import Pool

WATCHED = frozenset({LIVE, ENDED})


@dataclass(slots=True)
class FleetNode:
    """One node as the fleet's reducer sees it.

    `answered` means that a run has gone on without it since it fell silent, so its
    silence is old news until it speaks again; `member_at` is when it was last known to be
    part of a run, whose machine judges what happened until then.
    """

    last_at: float | None = None
    labels: dict[str, str] = field(default_factory=dict)
    scheduler: str = ""
    scheduler_ms: int = -1
    drained_ms: int = -1
    reason: str = ""
    owner: str = ""
    told_serial: int = 0
    told_at: float | None = None
    told_klass: str = ""
    answered: bool = False
    member_at: float | None = None
    hearing: Hearing = field(default_factory=Hearing)


@dataclass(slots=True)
class GroupLoss:
    """Nodes that fell silent together; `homes` says which attempt of which run the loss was told to."""

    serial: int = 0
    open: bool = False
    began: float = 0.0
    found_at: float = 0.0
    klass: str = ""
    stage: str = ""
    hold: bool = False
    why: str = ""
    nodes: list[str] = field(default_factory=list)
    homes: dict[str, int] = field(default_factory=dict)
    fleet_told: bool = False


@dataclass(slots=True)
class Ailment:
    """One sort of bad hearing, told once for all nodes that have it."""

    serial: int = 0
    open: bool = False
    found_at: float = 0.0
    nodes: list[str] = field(default_factory=list)


@dataclass(slots=True)
class FleetState:
    """Everything that the fleet's reducer remembers."""

    nodes: dict[str, FleetNode] = field(default_factory=dict)
    group: GroupLoss = field(default_factory=GroupLoss)
    maintenance: Maintenance = field(default_factory=Maintenance)
    overrun: Overrun = field(default_factory=Overrun)
    ailments: dict[str, Ailment] = field(default_factory=dict)
    strays: dict[str, float] = field(default_factory=dict)
    disputed: dict[str, float] = field(default_factory=dict)
    asked_at: float | None = None
    hardware: HardwareState = field(default_factory=HardwareState)
    sight: SightState = field(default_factory=SightState)
    told: dict[str, Told] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptOut:
    """A node that the ledger keeps out of training: its state, since when (seconds), and why."""

    state: str
    since: float
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stray:
    """A node that is kept out and yet stands in the allocation of an attempt that began later."""

    node: str
    run: str
    attempt: int
    kept_out: KeptOut


@dataclass(frozen=True, slots=True, kw_only=True)
class Witness:
    """What is known of nodes from elsewhere.

    `busy` are the run's to judge, or kept out of training anyway; `advancing` are outlived
    by a step of their run; `stalled` belong to a run that stands still; `homes` gives
    each member's run and attempt, `members` are those of every attempt, under way or not.
    `disputed` are names that two machines claim, `strays`
    kept-out nodes in an allocation (None: nobody was asked); `spares` counts the free spare nodes,
    `pool` says what they have to last for.
    """

    busy: frozenset[str] = frozenset()
    advancing: frozenset[str] = frozenset()
    stalled: frozenset[str] = frozenset()
    kept_out: frozenset[str] = frozenset()
    homes: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    members: frozenset[str] = frozenset()
    strays: tuple[Stray, ...] | None = None
    disputed: frozenset[str] | None = None
    spares: int | None = None
    pool: Pool | None = None

    @classmethod
    def of(
        cls,
        views: Iterable[RunView],
        *,
        kept_out: Mapping[str, KeptOut] | None = None,
        disputed: Iterable[str] | None = None,
        spares: int | None = None,
        pool: Pool | None = None,
    ) -> Self:
        """Gather what the runs' views say beside what the ledger knows."""
        ledger = kept_out or {}
        going = [view for view in views if view.state != COMPLETED]
        seen = [(view, node) for view in going for node in view.nodes if node.member]
        watched = [(view, node) for view, node in seen if view.state in WATCHED or node.verdict or view.troubled]
        return cls(
            busy=frozenset(node.name for _, node in watched) | {*ledger},
            advancing=frozenset(node.name for view, node in seen if node.outlived and not view.overdue),
            stalled=frozenset(node.name for view, node in seen if view.overdue or view.troubled),
            kept_out=frozenset(ledger),
            homes={node.name: (view.run, view.attempt) for view, node in watched if view.attempt is not None},
            members=frozenset(node.name for _, node in seen),
            strays=tuple(_strays(seen, ledger)),
            disputed=None if disputed is None else frozenset(disputed),
            spares=spares,
            pool=pool,
        )


def _strays(seen: Iterable[tuple[RunView, NodeView]], ledger: Mapping[str, KeptOut]) -> Iterator[Stray]:
    """An attempt that ran before the node was kept out is recovery's to end; one that began later is a mistake."""
    for view, node in seen:
        kept = ledger.get(node.name)
        if kept is None or kept.state == "draining" or view.attempt is None:
            continue
        if view.state == LIVE and (view.began_at or 0.0) > kept.since:
            yield Stray(node=node.name, run=view.run, attempt=view.attempt, kept_out=kept)


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
