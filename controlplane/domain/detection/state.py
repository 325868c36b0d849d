"""What a run's reducer remembers: one small record per rank, node and attempt.

The detectors share it. `intake` alone writes facts into it; each detector keeps its
own judgement in its own record, so that one can be read without the others. Times
that end in `_at` are the control plane's clock in seconds, those in `_ms` the
sender's clock in milliseconds.
"""

from dataclasses import dataclass, field

from controlplane.domain.detection.hardware_state import HardwareState
from controlplane.domain.detection.hearing_state import Hearing
from controlplane.domain.detection.launch_state import LaunchState
from controlplane.domain.detection.loss_state import LossState
from controlplane.domain.detection.maintenance_state import Maintenance
from controlplane.domain.detection.queue_state import QueueState
from controlplane.domain.detection.repeats_state import RepeatsState
from controlplane.domain.detection.resume_state import ResumeState
from controlplane.domain.detection.saves_state import SavesState
from controlplane.domain.detection.slow_state import SlowState
from controlplane.domain.detection.stagnation_state import StagnationState
from controlplane.domain.detection.storage_state import StorageState
from controlplane.domain.detection.upkeep_state import UpkeepState

MAX_RANKS = 65_536
MAX_NODES = 16_384

LIVE = "live"
RESTING = "resting"
ENDED = "ended"
COMPLETED = "completed"
NO_ATTEMPT = "waiting"


@dataclass(slots=True)
class PhaseMark:
    """The newest phase event of a rank, by the rank's own clock.

    `moved_at`, `moved_ms` and `moved_bytes` belong to the last event that showed
    progress: more done or more bytes than before, and in a restore not too slowly.
    """

    name: str = ""
    open: bool = False
    at: float = 0.0
    at_ms: int = -1
    began_at: float = 0.0
    began_ms: int = -1
    parts: int = 0
    done: float | None = None
    total: float | None = None
    bytes: float | None = None
    unit: str = ""
    moved_at: float = 0.0
    moved_ms: int = -1
    moved_bytes: float = 0.0
    deadline_s: float | None = None

    @property
    def complete(self) -> bool:
        """Say whether all parts are done, so that the rank only waits for the others."""
        return not self.open or (self.total is not None and self.done is not None and self.done >= self.total)


@dataclass(slots=True)
class Collected:
    """What the last collection of stacks said about a rank."""

    at: float = 0.0
    answered: bool | None = None
    proc_state: str = ""
    place: str = ""


@dataclass(slots=True)
class Member:
    """A rank's place in a collective group: how far it came and who it missed."""

    seq: int = -1
    op: str = ""
    missing: list[int] = field(default_factory=list)


@dataclass(slots=True)
class RankState:
    """One rank of the current attempt."""

    node: str = ""
    pid: int | None = None
    started_ms: int | None = None
    exited_ms: int | None = None
    exited_pid: int | None = None
    exited_at: float | None = None
    exit_code: int | None = None
    signal: int | None = None
    error: str = ""
    line: str = ""
    step: int | None = None
    step_at: float = 0.0
    step_ms: int = -1
    window_step: int | None = None
    compute_ms: float | None = None
    wait_ms: float | None = None
    data_ms: float | None = None
    phase: PhaseMark = field(default_factory=PhaseMark)
    collected: Collected = field(default_factory=Collected)
    groups: dict[str, Member] = field(default_factory=dict)

    @property
    def exited(self) -> bool:
        """Say whether the rank's process has ended and not been started again.

        Its node's clock may have been set back meanwhile: the end of the very process that started is its end.
        """
        if self.exited_ms is None or self.started_ms is None:
            return self.exited_ms is not None
        return self.exited_ms >= self.started_ms or (self.pid is not None and self.exited_pid == self.pid)

    @property
    def ended_well(self) -> bool:
        """Say whether it ended with status 0."""
        return self.exited and self.exit_code == 0 and not self.signal

    @property
    def died(self) -> bool:
        """Say whether it ended in any other way, known or not."""
        return self.exited and not self.ended_well


@dataclass(slots=True)
class AttemptState:
    """The attempt under watch."""

    number: int = 0
    began_at: float = 0.0
    announced: bool = False
    scheduler: str = ""
    state: str = LIVE
    nodes: list[str] = field(default_factory=list)
    world_size: int = 0
    resume_step: int | None = None
    job_id: str = ""
    ended_reason: str = ""
    ended_at: float | None = None
    exit_code: int | None = None
    rested_at: float | None = None
    ranks: dict[int, RankState] = field(default_factory=dict)
    first_step: int | None = None
    last_step: int | None = None
    progress_step: int | None = None
    progress_at: float = 0.0
    first_at: float | None = None
    saved_at: float = 0.0
    saved_ms: int = -1
    rewinds: int = 0
    rewound_steps: int = 0
    rewound_at: float = 0.0
    leap_step: int | None = None
    leap_run: int = 0
    leaps: int = 0
    samples: dict[int, list[float]] = field(default_factory=dict)
    intervals: list[list[int]] = field(default_factory=list)


@dataclass(slots=True)
class NodeState:
    """What is known of one node of the run, and the verdict on its silence."""

    last_at: float | None = None
    scheduler: str = ""
    scheduler_ms: int = -1
    drained_by: str = ""
    dying: bool = False
    verdict: str = ""
    stage: str = ""
    serial: int = 0
    silent_since: float = 0.0
    found_at: float = 0.0
    hearing: Hearing = field(default_factory=Hearing)


@dataclass(slots=True)
class SightState:
    """Whether we can see at all."""

    last_sweep: float | None = None
    last_word: float | None = None
    resumed_at: float = 0.0
    observing_until: float = 0.0
    blind: bool = False
    blind_since: float = 0.0
    serial: int = 0


@dataclass(slots=True)
class HangState:
    """The judgement of the progress detector."""

    serial: int = 0
    stage: str = ""
    mark: float = 0.0
    began: float = 0.0
    suspected_at: float = 0.0
    confirmed_at: float = 0.0
    what: str = ""
    deadline_s: float = 0.0
    spread_s: float = 0.0
    k: float | None = None
    k_raised_at: float = 0.0


@dataclass(slots=True)
class DeathState:
    """The judgement of the detector of dead ranks, for the current attempt."""

    found_at: float | None = None
    told_at: float = 0.0
    news: int = 0
    told_news: int = 0
    klass: str = ""
    sign: str = ""
    place: str = ""
    clear: bool = False


@dataclass(slots=True)
class StepLag:
    """How late steps arrive: since when only late ones have, and by how much the last was late."""

    late_since: float | None = None
    last_late_at: float = 0.0
    lag_s: float = 0.0
    serial: int = 0
    told_at: float | None = None


@dataclass(slots=True)
class Told:
    """What was last said under a finding's key."""

    attempt: int | None = None
    klass: str = ""
    stage: str = ""
    entity: str = ""
    detector: str = ""
    severity: str = ""
    began: float = 0.0
    digest: str = ""


@dataclass(slots=True)
class RunState:
    """Everything that a run's reducer remembers."""

    run: str = ""
    launcher: str = ""
    instrumented: bool = False
    high_water_step: int = 0
    high_water_at: float | None = None
    loss: float | None = None
    grad_norm: float | None = None
    tokens_per_s: float | None = None
    history: list[float] = field(default_factory=list)
    history_world: int = 0
    wholes: dict[str, list[float]] = field(default_factory=dict)
    parts: dict[str, list[float]] = field(default_factory=dict)
    rates: dict[str, list[float]] = field(default_factory=dict)
    outliers: dict[int, float] = field(default_factory=dict)
    attempt: AttemptState | None = None
    nodes: dict[str, NodeState] = field(default_factory=dict)
    sight: SightState = field(default_factory=SightState)
    hang: HangState = field(default_factory=HangState)
    death: DeathState = field(default_factory=DeathState)
    maintenance: Maintenance = field(default_factory=Maintenance)
    lag: StepLag = field(default_factory=StepLag)
    slow: SlowState = field(default_factory=SlowState)
    numbers: LossState = field(default_factory=LossState)
    queue: QueueState = field(default_factory=QueueState)
    launch: LaunchState = field(default_factory=LaunchState)
    saves: SavesState = field(default_factory=SavesState)
    upkeep: UpkeepState = field(default_factory=UpkeepState)
    repeats: RepeatsState = field(default_factory=RepeatsState)
    stagnation: StagnationState = field(default_factory=StagnationState)
    resume: ResumeState = field(default_factory=ResumeState)
    hardware: HardwareState = field(default_factory=HardwareState)
    storage: StorageState = field(default_factory=StorageState)
    told: dict[str, Told] = field(default_factory=dict)

    @property
    def live(self) -> AttemptState | None:
        """Give the attempt when the detectors of progress and death watch it."""
        return self.attempt if self.attempt is not None and self.attempt.state in (LIVE, ENDED) else None

    @property
    def troubled(self) -> bool:
        """Say whether this attempt is known not to advance any more."""
        return self.death.found_at is not None or self.hang.stage == "confirmed"
