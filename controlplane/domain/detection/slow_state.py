"""What the detector of slow runs remembers.

References outlive the attempt, since a slow node must not become the new usual by a
restart. Everything else dies with the attempt. Times of ranks are milliseconds, as they
are reported; shares are relative to the usual step time.
"""

from dataclasses import dataclass, field


@dataclass(slots=True)
class Reference:
    """What a step usually takes, and how much that scatters (relative).

    `unit_s` is seconds per step, or per token where `tokens` (per step) is known.
    """

    unit_s: float = 0.0
    sigma: float = 0.0
    tokens: float = 0.0
    steps: int = 0
    attempt: int = 0

    @property
    def step_s(self) -> float:
        """Seconds of a usual step."""
        return self.unit_s * (self.tokens or 1.0)


@dataclass(slots=True)
class StepTime:
    """One step as reported, waiting for its turn."""

    duration_s: float | None = None
    tokens: float = 0.0
    at_ms: int = 0
    received: float = 0.0


@dataclass(slots=True)
class ChartState:
    """The sum of one chart, and since which step it has not been zero."""

    total: float = 0.0
    count: int = 0
    onset_step: int = 0
    began: float = 0.0


@dataclass(slots=True)
class Alarm:
    """One slow-down: `share` 0.05 means steps of 5 % more time; `stage` "" means not told yet."""

    serial: int = 0
    stage: str = ""
    notice: bool = False
    onset_step: int = 0
    began: float = 0.0
    found_at: float = 0.0
    share: float = 0.0
    usual_s: float = 0.0
    counted: int = 0
    cause: str = ""
    ranks: list[int] = field(default_factory=list)
    node: str = ""
    growth: float = 0.0
    over_s: float = 0.0
    named_at: float = 0.0
    windows: int = 0
    examined: bool = False
    measured: bool = False


@dataclass(slots=True)
class Flag:
    """A rank that stood out in one window: by how much, and what explains it.

    `ratio` and `over_ms` compare its compute time with what is expected of it beside its peers.
    """

    ratio: float = 0.0
    over_ms: float = 0.0
    gain_ms: float = 0.0


@dataclass(slots=True)
class Window:
    """What the ranks' own times said over one stretch of steps, against before.

    Gains are milliseconds over each rank's own usual time, None where that is unknown:
    `compute_ms` and `data_ms` the median over the ranks, `wait_ms` the least of any.
    """

    last_step: int = 0
    at: float = 0.0
    flagged: dict[int, Flag] = field(default_factory=dict)
    compute_ms: float | None = None
    wait_ms: float | None = None
    data_ms: float | None = None
    data_rank: int = -1
    data_rank_ms: float = 0.0


@dataclass(slots=True)
class Times:
    """One report of one rank over some steps; None is not measured."""

    last_step: int = 0
    first_step: int = 0
    compute_ms: float | None = None
    wait_ms: float | None = None
    data_ms: float | None = None


@dataclass(slots=True)
class Usual:
    """A rank's own usual times in milliseconds, over `count` windows; `spread_ms` of the compute time."""

    count: int = 0
    compute_ms: float = 0.0
    spread_ms: float = 0.0
    wait_ms: float | None = None
    data_ms: float | None = None


@dataclass(slots=True)
class SlowAttempt:
    """What dies with the attempt."""

    number: int = 0
    rewinds: int = 0
    done_step: int = -1
    done_ms: int = 0
    pending: dict[int, StepTime] = field(default_factory=dict)
    fresh: list[float] = field(default_factory=list)
    by_token: bool = False
    learned: bool = False
    other_tokens: list[list[float]] = field(default_factory=list)
    recent: list[float] = field(default_factory=list)
    main: ChartState = field(default_factory=ChartState)
    notice: ChartState = field(default_factory=ChartState)
    alarms: list[Alarm] = field(default_factory=list)
    cohorts: dict[int, str] = field(default_factory=dict)
    reports: dict[int, dict[int, list[Times]]] = field(default_factory=dict)
    judged: int = -1
    usual: dict[int, Usual] = field(default_factory=dict)
    windows: list[Window] = field(default_factory=list)


@dataclass(slots=True)
class SlowState:
    """The record of the detector of slow runs."""

    key: str = ""
    references: dict[str, Reference] = field(default_factory=dict)
    serial: int = 0
    attempt: SlowAttempt = field(default_factory=SlowAttempt)
